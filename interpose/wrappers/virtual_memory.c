/* SPDX-License-Identifier: MIT */
/*
 * Hooks of memory without an address of its own: cuMemCreate and what maps it. Passed on and
 * counted by handle, until the last handle is released and the last mapping is gone. Such memory
 * belongs to no context. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"
#include "interpose/wrappers/uncached_memory.h"

static bool is_on_device(const CUmemAllocationProp *prop)
{
	return prop && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
}

static CUresult create_memory(CUmemGenericAllocationHandle *handle, size_t bytes,
			      const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct cm_uncached_request request;
	bool recorded;
	CUresult res;

	if (!is_on_device(prop)) {
		/* Memory of the host: kernels and the host will reach it by the same mapping. */
		CM_RETRY_AFTER(cm_retry_trim_host(returns), res,
			       cm_real.cuMemCreate(handle, bytes, prop, flags));
		if (res == CUDA_SUCCESS)
			cm_host_work_include_kernels();
		return res;
	}
	request = cm_uncached_begin(prop->location.id, 0, CM_UNCACHED_VMM, bytes);
	CM_RETRY_AFTER_TRIM_ON(
		prop->location.id, bytes, res,
		CM_UNCACHED_ASK(&request, cm_real.cuMemCreate(handle, bytes, prop, flags)));
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	if (res == CUDA_SUCCESS)
		cm_uncached_settle(&request, CM_NAME_HANDLE, *handle, bytes);
	else
		cm_uncached_fail(&request, res, bytes);
	cm_record_end(recorded);
	return res;
}

/* clang-format off */
CM_WRAP(cuMemCreate,
	(CUmemGenericAllocationHandle *handle, size_t bytes, const CUmemAllocationProp *prop,
	 unsigned long long flags),
	(handle, bytes, prop, flags), create_memory(handle, bytes, prop, flags))
/* clang-format on */

/* Whether the address lies in a block on pages, which looks unmapped to the program. */
static bool is_on_pages(CUdeviceptr addr)
{
	return cm_process_lookup(addr).segment_flags & CM_SEGMENT_PAGED;
}

/* A handle of our page would reach whatever is mapped there after the block is freed. */
static CUresult retain_handle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUresult res;

	if (is_on_pages((uintptr_t)addr))
		return CUDA_ERROR_INVALID_VALUE;
	res = cm_real.cuMemRetainAllocationHandle(handle, addr);
	if (res == CUDA_SUCCESS && cache)
		cm_uncached_retain(cache, *handle);
	return res;
}

static CUresult map_memory(CUdeviceptr addr, size_t bytes, size_t offset,
			   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUresult res;

	CM_RETRY_AFTER_TRIM(0, res, cm_real.cuMemMap(addr, bytes, offset, handle, flags));
	if (res == CUDA_SUCCESS && cache)
		cm_uncached_map(cache, addr, bytes, handle);
	return res;
}

static CUresult unmap_memory(CUdeviceptr addr, size_t bytes)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint32_t taken;

	if (is_on_pages(addr))
		return CUDA_ERROR_INVALID_VALUE;
	taken = cache ? cm_uncached_take_mapped(cache, addr, bytes) : 0;
	return cm_uncached_finish(taken, cm_real.cuMemUnmap(addr, bytes));
}

/* clang-format off */
CM_WRAP(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle *handle, void *addr),
	(handle, addr), retain_handle(handle, addr))
CM_WRAP_UNCACHED_FREE(cuMemRelease, CUmemGenericAllocationHandle, CM_NAME_HANDLE)
CM_WRAP(cuMemMap,
	(CUdeviceptr addr, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
	 unsigned long long flags),
	(addr, bytes, offset, handle, flags), map_memory(addr, bytes, offset, handle, flags))
CM_WRAP(cuMemUnmap, (CUdeviceptr addr, size_t bytes), (addr, bytes), unmap_memory(addr, bytes))
CM_WRAP(cuMemSetAccess,
	(CUdeviceptr addr, size_t bytes, const CUmemAccessDesc *access, size_t count),
	(addr, bytes, access, count),
	is_on_pages(addr) ? CUDA_ERROR_INVALID_VALUE
			  : cm_real.cuMemSetAccess(addr, bytes, access, count))
CM_WRAP(cuMemGetAccess,
	(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr addr),
	(flags, location, addr),
	is_on_pages(addr) ? CUDA_ERROR_INVALID_VALUE
			  : cm_real.cuMemGetAccess(flags, location, addr))
/* clang-format on */
