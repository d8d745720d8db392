/* SPDX-License-Identifier: MIT */
/*
 * The doors of device memory: cuMemAlloc, cuMemFree, cuMemGetInfo, cuIpcGetMemHandle. Whatever the
 * cache does not take goes to the driver with the program's own arguments.
 */
#include "allocator/cache.h"
#include "interpose/capture.h"
#include "interpose/context.h"
#include "interpose/hooks.h"
#include "interpose/log.h"
#include "interpose/process.h"

/* Counts on the device of the current context, if that is known to the cache. */
static void count(struct cm_cache *cache, enum cm_scalar scalar)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, cm_context_current());

	if (heap)
		cm_cache_count(cache, cm_heap_device(heap), scalar, 1);
}

/* The program's own call; where it fails for memory that we hold, once more without that. */
static CUresult forward_alloc(struct cm_cache *cache, CUdeviceptr *addr, size_t bytes)
{
	CUresult res = cm_real.cuMemAlloc_v2(addr, bytes);

	if (res == CUDA_ERROR_OUT_OF_MEMORY && cm_cache_make_room(cache, cm_context_current()))
		res = cm_real.cuMemAlloc_v2(addr, bytes);
	count(cache, CM_SCALAR_forwarded_allocs);
	return res;
}

static CUresult alloc(CUdeviceptr *addr, size_t bytes)
{
	struct cm_cache *cache = cm_process_cache();
	struct cm_heap *heap;
	uint64_t got;
	int err;

	if (!cache)
		return cm_real.cuMemAlloc_v2(addr, bytes);
	if (!addr || cm_capture_is_active())
		return forward_alloc(cache, addr, bytes);
	heap = cm_context_heap(cache);
	if (!heap)
		return forward_alloc(cache, addr, bytes);
	err = cm_cache_alloc(cache, heap, bytes, &got);
	if (err < 0)
		return forward_alloc(cache, addr, bytes);
	if (err > 0)
		return (CUresult)err;
	*addr = got;
	return CUDA_SUCCESS;
}

CUresult cm_wrap_cuMemAlloc_v2(CUdeviceptr *addr, size_t bytes)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuMemAlloc_v2(addr, bytes);
	res = alloc(addr, bytes);
	cm_hook_leave();
	return res;
}

static CUresult release(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t stale = addr;
	int err;

	if (!cache || !addr)
		return cm_real.cuMemFree_v2(addr);
	err = cm_cache_free(cache, addr, &stale);
	if (err >= 0)
		return (CUresult)err;
	count(cache, CM_SCALAR_forwarded_frees);
	return cm_real.cuMemFree_v2(stale);
}

CUresult cm_wrap_cuMemFree_v2(CUdeviceptr addr)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuMemFree_v2(addr);
	res = release(addr);
	cm_hook_leave();
	return res;
}

/* Memory that we hold and could give back is free to the program. */
CUresult cm_wrap_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct cm_cache *cache;
	CUresult res;
	size_t sum;

	if (!cm_hook_enter())
		return cm_real.cuMemGetInfo_v2(free_bytes, total);
	res = cm_real.cuMemGetInfo_v2(free_bytes, total);
	cache = cm_process_cache_if_made();
	if (res == CUDA_SUCCESS && cache && free_bytes && total) {
		sum = *free_bytes + cm_cache_returnable(cache, cm_context_current());
		*free_bytes = sum < *total ? sum : *total;
	}
	cm_hook_leave();
	return res;
}

/*
 * A handle names a whole driver allocation. A block that begins one can be exported, and is not
 * recycled any more; for another the importer would get the wrong address, so it is refused.
 */
static CUresult export(CUipcMemHandle *handle, CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct cm_place_info info;

	if (!cache)
		return cm_real.cuIpcGetMemHandle(handle, addr);
	cm_cache_lookup(cache, addr, &info);
	if (info.place == CM_PLACE_LIVE || info.place == CM_PLACE_INTERIOR) {
		if (info.block_addr != info.segment_addr) {
			cm_log(CM_LOG_WARNING,
			       "cuIpcGetMemHandle(0x%llx): this memory is part of a larger "
			       "allocation and can't be shared; set CUDAMEM_CONF=placement:exact",
			       (unsigned long long)addr);
			return CUDA_ERROR_INVALID_VALUE;
		}
		(void)cm_cache_mark_exported(cache, addr);
	}
	return cm_real.cuIpcGetMemHandle(handle, addr);
}

CUresult cm_wrap_cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr addr)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuIpcGetMemHandle(handle, addr);
	res = export(handle, addr);
	cm_hook_leave();
	return res;
}
