/* SPDX-License-Identifier: MIT */
/*
 * Hooks of device memory: cuMemAlloc, cuMemFree, cuMemGetInfo. What the cache does not serve goes
 * to the driver with the program's own arguments. Thread-safe.
 */
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/take.h"
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/entry/slow_path.h"
#include "allocator/state/limit.h"
#include "interpose/core/cancel.h"
#include "interpose/core/unusual.h"
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

static bool take_freed(struct cm_cache *cache, uint64_t ctx, CUdeviceptr *addr, size_t bytes)
{
	struct cm_heap *heap = cm_cache_heap_of_thread(cache, ctx);
	uint64_t got = 0;
	bool recorded;
	int err;

	if (!heap || !cm_cache_may_have(cache, cm_heap_device(heap), bytes))
		return false;
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	err = cm_cache_alloc_freed(cache, heap, bytes, &got);
	cm_record_end(recorded);
	if (!err)
		*addr = got;
	return !err;
}

/* The driver's verdict comes first. If it is that there is no memory, the request is allowed, and
 * what was freed serves it: none of that returns to the driver while a capture is active. */
static CUresult ask(struct cm_cache *cache, struct cm_uncached_request *request, CUdeviceptr *addr,
		    size_t bytes, bool *ret_cached)
{
	const CUresult res = CM_UNCACHED_ASK(request, cm_real.cuMemAlloc_v2(addr, bytes));

	*ret_cached = res == CUDA_ERROR_OUT_OF_MEMORY && !request->limited &&
		      take_freed(cache, request->memory.ctx, addr, bytes);
	return *ret_cached ? CUDA_SUCCESS : res;
}

static CM_NOINLINE CUresult forward_alloc(struct cm_cache *cache, CUdeviceptr *addr, size_t bytes)
{
	struct cm_uncached_request request = cm_uncached_begin(
		CM_CURRENT_DEVICE, cm_context_current(), CM_UNCACHED_FORWARDED, bytes);
	bool recorded, cached;
	CUresult res;

	CM_RETRY_AFTER_TRIM(bytes, res, ask(cache, &request, addr, bytes, &cached));
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	if (res == CUDA_SUCCESS && addr && !cached)
		cm_uncached_settle(&request, CM_NAME_ADDRESS, *addr, bytes);
	else
		cm_uncached_fail(&request, res, bytes);
	cm_record_end(recorded);
	if (!cached)
		count_call(cache, CM_SCALAR_forwarded_allocs);
	cm_context_note_error(res);
	return res;
}

/* As cm_hook_leave. */
CM_ALWAYS_INLINE void leave_usual(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	cm_hook_depth = 0;
}

/*
 * If nothing is unusual, marks the thread as inside, as cm_hook_enter does, and returns the heap of
 * the current context. Else returns NULL and marks nothing.
 */
CM_ALWAYS_INLINE struct cm_heap *enter_usual(void)
{
	struct cm_heap *heap = cm_thread.heap;
	CUcontext ctx = NULL;

	if (CM_UNLIKELY(cm_hook_depth || !heap ||
			atomic_load_explicit(&cm_process.unusual, memory_order_acquire) !=
				CM_USUAL))
		return NULL;
	cm_hook_depth = 1;
	atomic_signal_fence(memory_order_seq_cst);
	if (CM_LIKELY(cm_real.cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx &&
		      __atomic_load_n(&heap->ctx, __ATOMIC_ACQUIRE) == (uintptr_t)ctx))
		return heap;
	leave_usual();
	return NULL;
}

/* What to do with a request after the cache has answered. */
static CUresult finish_alloc(struct cm_cache *cache, int err, CUdeviceptr *addr, uint64_t got,
			     size_t bytes)
{
	if (CM_UNLIKELY(err < 0))
		return forward_alloc(cache, addr, bytes);
	if (CM_LIKELY(!err))
		*addr = got;
	else
		cm_context_note_error((CUresult)err);
	return (CUresult)err;
}

static CUresult alloc_device(CUdeviceptr *addr, size_t bytes)
{
	struct cm_cache *cache = cm_process_cache_for_request();
	struct cm_heap *heap;
	uint64_t got = 0;
	bool recorded;
	int err;

	if (!cache)
		return cm_real.cuMemAlloc_v2(addr, bytes);
	heap = !addr || cm_capture_is_active() ? NULL : cm_context_heap(cache);
	if (!heap)
		return forward_alloc(cache, addr, bytes);
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	err = cm_cache_alloc(cache, heap, bytes, &got);
	cm_record_end(recorded);
	return finish_alloc(cache, err, addr, got, bytes);
}

static CM_NOINLINE CUresult alloc_unusual(CUdeviceptr *addr, size_t bytes)
{
	CUresult res;

	if (!cm_hook_enter())
		return cm_real.cuMemAlloc_v2(addr, bytes);
	res = alloc_device(addr, bytes);
	cm_hook_leave();
	return res;
}

/* Set: no ready block may serve the request. */
static CM_NOINLINE CUresult alloc_missed(struct cm_heap *heap, int err, CUdeviceptr *addr,
					 size_t bytes)
{
	uint64_t got = 0;
	CUresult res;

	if (err == -ENOENT)
		err = cm_slow_path_alloc(heap, cm_size_grains(bytes), bytes, &got);
	cm_check_after(heap->cache);
	res = finish_alloc(heap->cache, err, addr, got, bytes);
	cm_hook_leave();
	return res;
}

CUresult cm_wrap_cuMemAlloc_v2(CUdeviceptr *addr, size_t bytes)
{
	struct cm_heap *heap;
	uint64_t got;
	int err;

	if (CM_UNLIKELY(!addr || bytes - 1 >= CM_REQUEST_MAX))
		return alloc_unusual(addr, bytes);
	heap = enter_usual();
	if (CM_UNLIKELY(!heap))
		return alloc_unusual(addr, bytes);
	err = cm_take_first(heap, cm_thread.id, cm_size_grains(bytes), bytes, true, &got);
	if (CM_UNLIKELY(err))
		return alloc_missed(heap, err, addr, bytes);
	cm_check_after(heap->cache);
	*addr = got;
	leave_usual();
	return CUDA_SUCCESS;
}

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

/* A native free returns when the device is done. The host may rely on that for memory that it reads
 * and writes (host_work.h). False: a capture did not let it wait. */
static CM_NOINLINE bool await_host_work(struct cm_cache *cache, CUdeviceptr addr)
{
	struct cm_place_info info;

	cm_cache_lookup(cache, addr, &info);
	return info.place != CM_PLACE_LIVE ||
	       cm_context_await_host_work(cm_registry_read((CUcontext)(uintptr_t)info.ctx).device);
}

/* Whether each free waits, by the allocator or the driver. */
static bool always_waits(const struct cm_cache *cache)
{
	return cache->policy.sync == CM_SYNC_FREE || cache->policy.mode == CM_MODE_STATS;
}

/* While a capture is active the library may not wait by an event. The driver waits when it frees
 * memory, as it would for the program's block, which it has just allowed to free. In relaxed
 * capture mode: a capture that has begun since must not be lost by our calls. */
static CM_NOINLINE void await_in_capture(struct cm_cache *cache, CUdeviceptr addr)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct cm_place_info info;
	CUdeviceptr own;
	CUcontext ctx;

	cm_cache_lookup(cache, addr, &info);
	ctx = (CUcontext)(uintptr_t)info.ctx;
	if (info.place != CM_PLACE_LIVE || !cm_registry_pin(ctx))
		return;
	cm_cancel_hold();
	if (!cm_context_push(info.ctx)) {
		(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
		if (cm_real.cuMemAlloc_v2(&own, 1) == CUDA_SUCCESS)
			(void)cm_real.cuMemFree_v2(own);
		(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
		cm_context_pop();
	}
	cm_cancel_allow();
	cm_registry_unpin_all(&ctx, 1);
}

static CUresult free_device(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t forward = addr;
	bool recorded, waited;
	CUresult res;
	int err;

	if (!cache || !addr)
		return cm_real.cuMemFree_v2(addr);
	waited = !cm_host_work_exists() || await_host_work(cache, addr);
	res = cm_context_may_refuse_free(cache) ? probe_free(cache, addr) : CUDA_SUCCESS;
	if (res != CUDA_SUCCESS)
		return res;
	if (!waited || (always_waits(cache) && cm_capture_is_active()))
		await_in_capture(cache, addr);
	recorded = cm_record_begin(CM_CONTEXT_ALL);
	err = cm_cache_free(cache, addr, &forward);
	cm_record_end(recorded);
	return err >= 0 ? (CUresult)err : forward_free(cache, forward);
}

/*
 * A call from inside another call: the driver frees memory of its own. A block of ours comes from
 * the program, in a signal handler or on a thread where longjmp or cancellation left the hook depth
 * set. The driver would take the address for the whole segment, so the cache takes it.
 */
static CUresult free_nested(CUdeviceptr addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t forward = addr;
	int err = cache && addr ? cm_cache_free_inside(cache, addr, &forward) : -ENOENT;

	return err >= 0 ? (CUresult)err : cm_real.cuMemFree_v2(forward);
}

static CM_NOINLINE CUresult free_unusual(CUdeviceptr addr)
{
	CUresult res;

	if (!cm_hook_enter())
		return free_nested(addr);
	res = free_device(addr);
	cm_hook_leave();
	return res;
}

/* Set: the cache has no such block, or something about it is unusual. */
static CM_NOINLINE CUresult free_missed(CUdeviceptr addr)
{
	CUresult res = free_device(addr);

	cm_hook_leave();
	return res;
}

CUresult cm_wrap_cuMemFree_v2(CUdeviceptr addr)
{
	struct cm_heap *heap = enter_usual();

	if (CM_UNLIKELY(!heap))
		return free_unusual(addr);
	if (CM_UNLIKELY(!cm_free_usual(heap, cm_thread.id, addr)))
		return free_missed(addr);
	cm_check_after(heap->cache);
	leave_usual();
	return CUDA_SUCCESS;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The limit on the process, and what it leaves if the cache releases `returnable` bytes. What may
 * exceed it now cannot be allocated again once it is freed. */
static void read_limit(struct cm_cache *cache, uint64_t returnable, uint64_t *ret_limit,
		       uint64_t *ret_left)
{
	uint64_t limit = UINT64_MAX, taken = 0, used;
	uint32_t row;

	if (cm_cache_has_limit(cache) && cm_context_find_row(cache, &row))
		cm_cache_read_limit(cache, row, &limit, &taken);
	*ret_limit = limit;
	used = taken - least(returnable, taken);
	*ret_left = limit > used ? limit - used : 0;
}

/* Memory that the cache could release counts as free. `total` may be NULL. */
static CUresult read_mem_info(struct cm_cache *cache, size_t *free_bytes, size_t *total)
{
	const uint64_t ctx = cm_context_current();
	struct cm_info_snapshot before = cm_cache_info_begin(cache);
	uint64_t sum, limit, left;
	size_t size = 0;
	CUresult res;

	do {
		sum = cm_cache_returnable(cache, ctx);
		res = cm_real.cuMemGetInfo_v2(free_bytes, &size);
		if (res != CUDA_SUCCESS)
			return res;
		sum += *free_bytes;
		read_limit(cache, sum - *free_bytes, &limit, &left);
	} while (cm_cache_info_must_retry(cache, ctx, &before));
	size = least(size, limit);
	*free_bytes = least(least(sum, left), size);
	if (total)
		*total = size;
	return res;
}

static CUresult tell_mem_info(size_t *free_bytes, size_t *total)
{
	/* A program that asks before it allocates gets its limit, too. */
	struct cm_cache *cache = cm_process_cache_for_request();
	size_t unwanted;

	return cache && (free_bytes || total)
		       ? read_mem_info(cache, free_bytes ? free_bytes : &unwanted, total)
		       : cm_real.cuMemGetInfo_v2(free_bytes, total);
}

/* clang-format off */
CM_WRAP(cuMemGetInfo_v2, (size_t *free_bytes, size_t *total), (free_bytes, total),
	tell_mem_info(free_bytes, total))
/* clang-format on */
