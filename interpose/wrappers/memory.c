/* SPDX-License-Identifier: MIT */
/*
 * Hooks of device memory: cuMemAlloc, cuMemFree, cuMemGetInfo. What the cache does not serve goes
 * to the driver with the program's own arguments. Thread-safe.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"
#include "interpose/wrappers/uncached_memory.h"

/* Adds 1 to a counter of the current context's device. */
static void count_call(struct cm_cache *cache, enum cm_scalar scalar)
{
	uint32_t device;

	if (cm_context_find_row(cache, &device))
		cm_cache_count(cache, device, scalar, 1);
}

static CM_NOINLINE CUresult forward_alloc(struct cm_cache *cache, CUdeviceptr *addr, size_t bytes)
{
	CUresult res;

	CM_RETRY_AFTER_TRIM(bytes, res, cm_real.cuMemAlloc_v2(addr, bytes));
	if (res == CUDA_SUCCESS && addr)
		cm_uncached_note(CM_UNCACHED_FORWARDED, CM_NAME_ADDRESS, *addr, bytes);
	count_call(cache, CM_SCALAR_forwarded_allocs);
	cm_context_note_error(res);
	return res;
}

static CUresult alloc_device(CUdeviceptr *addr, size_t bytes)
{
	struct cm_cache *cache = cm_process_cache_for_request();
	struct cm_heap *heap;
	bool recorded;
	uint64_t got;
	int err;

	if (CM_UNLIKELY(!cache))
		return cm_real.cuMemAlloc_v2(addr, bytes);
	heap = CM_UNLIKELY(!addr || cm_capture_is_active()) ? NULL : cm_context_heap(cache);
	if (CM_UNLIKELY(!heap))
		return forward_alloc(cache, addr, bytes);
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	err = cm_cache_alloc(cache, heap, bytes, &got);
	cm_record_end(recorded);
	if (CM_UNLIKELY(err < 0))
		return forward_alloc(cache, addr, bytes);
	if (CM_LIKELY(!err))
		*addr = got;
	else
		cm_context_note_error((CUresult)err);
	return (CUresult)err;
}

/* clang-format off */
CM_WRAP(cuMemAlloc_v2, (CUdeviceptr *addr, size_t bytes), (addr, bytes), alloc_device(addr, bytes))
/* clang-format on */

/* If the driver might refuse this free (capture, sticky error), probes it with an address at which
 * no allocation starts: the driver refuses that with CUDA_ERROR_INVALID_VALUE if it would have
 * accepted the free. */
static CM_NOINLINE CUresult probe_free(struct cm_cache *cache, CUdeviceptr addr)
{
	struct cm_place_info info;
	CUresult res;

	cm_cache_lookup(cache, addr, &info);
	if (info.place != CM_PLACE_LIVE)
		return CUDA_SUCCESS;
	res = cm_real.cuMemFree_v2(info.segment_addr + 1);
	return res == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : res;
}

static CM_NOINLINE CUresult forward_free(struct cm_cache *cache, CUdeviceptr addr)
{
	uint32_t taken;

	count_call(cache, CM_SCALAR_forwarded_frees);
	taken = cm_uncached_begin_free(CM_NAME_ADDRESS, addr);
	return cm_uncached_finish(taken, cm_real.cuMemFree_v2(addr));
}

/* A native free would return when the device is done. The host may rely on that for what it reads
 * and writes (host_work.h). */
static CM_NOINLINE void await_host_work(struct cm_cache *cache, CUdeviceptr addr)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, addr, &info);
	if (info.place == CM_PLACE_LIVE)
		cm_context_note_error(cm_host_work_await(
			cm_registry_read((CUcontext)(uintptr_t)info.ctx).device));
}

static CUresult free_device(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t forward = addr;
	CUresult res;
	bool recorded;
	int err;

	if (CM_UNLIKELY(!cache || !addr))
		return cm_real.cuMemFree_v2(addr);
	if (cm_host_work_exists())
		await_host_work(cache, addr);
	res = CM_UNLIKELY(cm_context_may_refuse_free(cache)) ? probe_free(cache, addr)
							     : CUDA_SUCCESS;
	if (CM_UNLIKELY(res != CUDA_SUCCESS))
		return res;
	recorded = cm_record_begin(CM_CONTEXT_ALL);
	err = cm_cache_free(cache, addr, &forward);
	cm_record_end(recorded);
	return CM_LIKELY(err >= 0) ? (CUresult)err : forward_free(cache, forward);
}

/*
 * A call from inside another call: the driver frees memory of its own. A block of ours comes from
 * the program, in a signal handler or on a thread where longjmp or cancellation left the hook depth
 * set. The driver would take the address for the whole segment, so the cache takes it.
 */
static CM_NOINLINE CUresult free_nested(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t forward = addr;
	int err = cache && addr ? cm_cache_free_inside(cache, addr, &forward) : -ENOENT;

	return err >= 0 ? (CUresult)err : cm_real.cuMemFree_v2(forward);
}

CUresult cm_wrap_cuMemFree_v2(CUdeviceptr addr)
{
	CUresult res;

	if (CM_UNLIKELY(!cm_hook_enter()))
		return free_nested(addr);
	res = free_device(addr);
	cm_hook_leave();
	return res;
}

/* Memory that the cache could release counts as free. `total` may be NULL. */
static CUresult read_mem_info(struct cm_cache *cache, size_t *free_bytes, size_t *total)
{
	const uint64_t ctx = cm_context_current();
	struct cm_info_snapshot before = cm_cache_info_begin(cache);
	size_t size = 0;
	uint64_t sum;
	CUresult res;

	do {
		sum = cm_cache_returnable(cache, ctx);
		res = cm_real.cuMemGetInfo_v2(free_bytes, &size);
		if (res != CUDA_SUCCESS)
			return res;
		sum += *free_bytes;
	} while (cm_cache_info_must_retry(cache, ctx, &before));
	*free_bytes = sum < size ? sum : size;
	if (total)
		*total = size;
	return res;
}

CUresult cm_wrap_cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	struct cm_cache *cache;
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuMemGetInfo_v2(free_bytes, total);
	cache = cm_process_cache_if_made();
	res = cache && free_bytes ? read_mem_info(cache, free_bytes, total)
				  : cm_real.cuMemGetInfo_v2(free_bytes, total);
	cm_hook_leave();
	return res;
}
