/* SPDX-License-Identifier: MIT */
/*
 * Hooks of memory without an address of its own: cuMemCreate and what maps it. Passed on and
 * counted by handle, until the last handle is released and the last mapping is gone. Such memory
 * belongs to no context. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/driver/context.h"
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
		res = cm_real.cuMemCreate(handle, bytes, prop, flags);
		if (res == CUDA_SUCCESS)
			cm_host_work_count_kernels();
		return res;
	}
	request = cm_uncached_begin_on(prop->location.id, CM_UNCACHED_VMM, bytes);
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
static bool is_on_pages(struct cm_cache *cache, uint64_t addr)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, addr, &info);
	return info.segment_flags & CM_SEGMENT_PAGED;
}

/* A handle of our page would reach whatever is mapped there after the block is freed. */
static CUresult retain_handle(struct cm_cache *cache, CUmemGenericAllocationHandle *handle,
			      void *addr)
{
	CUresult res;

	if (is_on_pages(cache, (uintptr_t)addr))
		return CUDA_ERROR_INVALID_VALUE;
	res = cm_real.cuMemRetainAllocationHandle(handle, addr);
	if (res == CUDA_SUCCESS)
		cm_uncached_retain(cache, *handle);
	return res;
}

CUresult cm_wrap_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUresult res;

	if (!cache || !cm_hook_enter())
		return cm_real.cuMemRetainAllocationHandle(handle, addr);
	res = retain_handle(cache, handle, addr);
	cm_hook_leave();
	return res;
}

/* clang-format off */
CM_WRAP_UNCACHED_FREE(cuMemRelease, CUmemGenericAllocationHandle, CM_NAME_HANDLE)
/* clang-format on */

CUresult cm_wrap_cuMemMap(CUdeviceptr addr, size_t bytes, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUresult res;

	if (!cache || !cm_hook_enter())
		return cm_real.cuMemMap(addr, bytes, offset, handle, flags);
	CM_RETRY_AFTER_TRIM(0, res, cm_real.cuMemMap(addr, bytes, offset, handle, flags));
	if (res == CUDA_SUCCESS)
		cm_uncached_map(cache, addr, bytes, handle);
	cm_hook_leave();
	return res;
}

static CUresult unmap_memory(struct cm_cache *cache, CUdeviceptr addr, size_t bytes)
{
	uint32_t taken;

	if (is_on_pages(cache, addr))
		return CUDA_ERROR_INVALID_VALUE;
	taken = cm_uncached_take_mapped(cache, addr, bytes);
	return cm_uncached_finish(taken, cm_real.cuMemUnmap(addr, bytes));
}

CUresult cm_wrap_cuMemUnmap(CUdeviceptr addr, size_t bytes)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	CUresult res;

	if (!cache || !cm_hook_enter())
		return cm_real.cuMemUnmap(addr, bytes);
	res = unmap_memory(cache, addr, bytes);
	cm_hook_leave();
	return res;
}
