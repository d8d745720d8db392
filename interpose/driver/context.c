/* SPDX-License-Identifier: MIT */
#include "interpose/driver/context.h"

#include <stdatomic.h>
#include <string.h>

#include "allocator/state/pages.h"
#include "interpose/core/cancel.h"
#include "interpose/core/log.h"
#include "interpose/core/state.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/current.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/driver/graph_work.h"
#include "interpose/driver/host_work.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"

#define CTX_EVENTS_VERSION 12050 /* first driver version with cuCtxRecordEvent */

void cm_context_note_error_of(uint64_t ctx, CUresult res)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache && cm_context_is_sticky(res))
		cm_cache_drain_heap(cache, ctx);
}

void cm_context_note_error(CUresult res)
{
	if (cm_context_is_sticky(res))
		cm_context_note_error_of(cm_context_current(), res);
}

void cm_context_note_error_of_stream(CUstream stream, CUresult res)
{
	uint64_t ctx;

	if (!cm_context_is_sticky(res))
		return;
	/* If the driver does not tell which it is, the current one, which may be another. */
	ctx = cm_context_of_stream(stream);
	if (cm_driver_ops()->ctx_is_dead(ctx))
		cm_context_note_error_of(ctx, res);
}

bool cm_context_await_host_work(CUdevice device)
{
	uint64_t ctx = 0;
	const CUresult res = cm_host_work_await(device, &ctx);

	cm_context_note_error_of(ctx, res);
	return res != CUDA_ERROR_NOT_READY;
}

/* The heap of the context, or NULL, for cm_thread. If it has a heap, the thread's id is known,
 * too. */
static struct cm_heap *find_heap(struct cm_cache *cache, uint64_t ctx)
{
	(void)cm_thread_id();
	cm_thread.heap = cm_cache_heap_of_thread(cache, ctx);
	return cm_thread.heap;
}

bool cm_context_may_refuse_free(struct cm_cache *cache)
{
	const struct cm_heap *heap = find_heap(cache, cm_context_current());

	return cm_capture_is_active() || !heap || cm_heap_drains(heap);
}

/* An older driver may export the functions and return "not supported", so its version decides. */
static bool has_ctx_events(void)
{
	int version = 0;

	return cm_real_has(cuCtxRecordEvent) && cm_real_has(cuCtxWaitEvent) &&
	       cm_real.cuDriverGetVersion(&version) == CUDA_SUCCESS &&
	       version >= CTX_EVENTS_VERSION;
}

/* What the driver reports about the current context. */
static bool read_info(CUcontext ctx, struct cm_context_info *info)
{
	unsigned long long id = 0;
	size_t free_bytes, total;
	CUdevice device;
	CUuuid uuid;

	*info = (struct cm_context_info){.ctx = (uintptr_t)ctx,
					 .open_to = cm_registry_read(ctx).open_to,
					 .is_found = cm_registry_read(ctx).is_found};
	if (cm_real.cuCtxGetDevice(&device) != CUDA_SUCCESS ||
	    cm_real.cuMemGetInfo_v2(&free_bytes, &total) != CUDA_SUCCESS)
		return false;
	info->ordinal = device;
	/* The context's own total: a part of the device under MIG or MPS. */
	info->total_bytes = total;
	info->free_bytes = free_bytes;
	if (cm_real.cuCtxGetId(ctx, &id) == CUDA_SUCCESS)
		info->id = id;
	if (cm_real.cuDeviceGetUuid_v2(&uuid, device) == CUDA_SUCCESS)
		memcpy(info->uuid, &uuid, sizeof(info->uuid));
	if (cm_real.cuDeviceGetName(info->name, sizeof(info->name), device) != CUDA_SUCCESS)
		info->name[0] = '\0';
	if (cm_real.cuDeviceGetPCIBusId(info->pci, sizeof(info->pci), device) != CUDA_SUCCESS)
		info->pci[0] = '\0';
	info->simulated = !strncmp(info->name, "Simulated", strlen("Simulated"));
	if (has_ctx_events())
		info->can = CM_CAN_CTX_EVENTS;
	if (cm_process_policy()->expandable_segments && cm_driver_has_pages(device, CM_PAGED_PAGE))
		info->can |= CM_CAN_PAGES;
	return true;
}

static struct cm_heap *add_heap(struct cm_cache *cache, CUcontext ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, (uintptr_t)ctx);
	struct cm_context_info info;
	bool ok;

	if (heap)
		return heap;
	/* The context may be pinned, and its teardown waits for us: do not be cancelled. */
	cm_cancel_hold();
	ok = !cm_context_push((uintptr_t)ctx);
	if (ok) {
		ok = read_info(ctx, &info);
		cm_context_pop();
	}
	cm_cancel_allow();
	if (!ok || cm_cache_add_heap(cache, &info, &heap))
		return NULL;
	/* Peers that got access since read_info did not see the heap and are registered by now;
	 * later ones see the heap. So open it to the difference. */
	return cm_cache_open_to(cache, info.ctx, cm_registry_read(ctx).open_to & ~info.open_to)
		       ? NULL
		       : heap;
}

void cm_context_stop_caching(const char *why)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cm_unusual_set(CM_UNUSUAL_STOPPED, true))
		return;
	cm_log(CM_LOG_WARNING, "%s: nothing is cached from now on", why);
	if (cache)
		cm_cache_drain_all(cache);
	cm_record_cause(CM_CAUSE_STOPPED, why, true);
}

/* False if the context is alive and cannot have a heap. A dead one has no work to track. */
static bool try_track(struct cm_cache *cache, CUcontext ctx)
{
	return add_heap(cache, ctx) || cm_driver_ops()->ctx_is_dead((uintptr_t)ctx);
}

static uint32_t count_heaps(struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->contexts, memory_order_relaxed);
}

static void stop_tracking(void)
{
	cm_context_stop_caching("a context that cannot be tracked");
}

/* Gives every registered context a heap, or none: an epoch covers the contexts with heaps. A
 * context that is registered meanwhile either sees a heap and adds its own, or is found in the next
 * round. False if it is not possible now. */
static bool track_all(struct cm_cache *cache)
{
	CUcontext list[CM_FENCE_CONTEXTS];
	uint32_t before;
	size_t i, n;
	bool all;

	do {
		before = count_heaps(cache);
		if (!cm_registry_pin_all(list, &n))
			return false;
		for (i = 0, all = true; i < n; i++)
			all &= try_track(cache, list[i]);
		cm_registry_unpin_all(list, n);
	} while (count_heaps(cache) != before);
	if (!all && before)
		stop_tracking();
	return all;
}

void cm_context_track(CUcontext ctx)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache && count_heaps(cache) && !try_track(cache, ctx))
		stop_tracking();
}

/* The heap of the calling thread's context. */
static struct cm_heap *make_heaps(struct cm_cache *cache, CUcontext ctx)
{
	return track_all(cache) ? add_heap(cache, ctx) : NULL;
}

bool cm_context_register(CUcontext ctx, CUdevice device, enum cm_context_kind kind)
{
	const bool added = cm_registry_add(ctx, device, kind);

	if (!added)
		cm_context_stop_caching("more than 16 contexts");
	return added;
}

/* Registers the current context, which may have been created without a hook. False if it cannot be
 * tracked. */
static bool register_current(CUcontext ctx)
{
	CUdevice device;

	return cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS &&
	       cm_context_register(ctx, device, CM_CONTEXT_SEEN);
}

CM_NOINLINE struct cm_heap *cm_context_find_heap(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap;

	if (!ctx || cm_unusual_is(CM_UNUSUAL_STOPPED))
		return NULL;
	heap = find_heap(cache, ctx);
	if (!heap && register_current((CUcontext)(uintptr_t)ctx))
		heap = cm_thread.heap = make_heaps(cache, (CUcontext)(uintptr_t)ctx);
	return heap;
}

bool cm_context_find_row(struct cm_cache *cache, uint32_t *ret_row)
{
	uint64_t ctx = cm_context_current();
	struct cm_heap *heap = ctx ? cm_cache_find_heap(cache, ctx) : NULL;

	if (ctx && !heap && !cm_capture_is_active()) {
		/* Memory is counted even in a context that cannot be tracked. */
		(void)register_current((CUcontext)(uintptr_t)ctx);
		heap = make_heaps(cache, (CUcontext)(uintptr_t)ctx);
	}
	if (heap)
		*ret_row = cm_heap_device(heap);
	return heap;
}

bool cm_context_find_row_of(struct cm_cache *cache, int ordinal, uint32_t *ret_row)
{
	uint32_t row = cm_cache_device_row(cache, ordinal);
	struct cm_heap *heap = NULL;
	CUcontext ctx;

	if (row == UINT32_MAX && !cm_capture_is_active()) {
		ctx = cm_registry_find(ordinal, CM_CONTEXT_ANY);
		if (ctx && track_all(cache))
			heap = cm_cache_find_heap(cache, (uintptr_t)ctx);
		if (heap)
			row = cm_heap_device(heap);
	}
	if (row != UINT32_MAX)
		*ret_row = row;
	return row != UINT32_MAX;
}

void cm_context_forget(struct cm_cache *cache, CUcontext ctx)
{
	if (cache)
		(void)cm_cache_forget_heap(cache, (uintptr_t)ctx);
	cm_capture_forget_context((uintptr_t)ctx);
	cm_host_work_forget_context((uintptr_t)ctx);
	cm_registry_remove(ctx);
}

void cm_context_forget_stale(CUcontext ctx)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	/* A thread that is destroying the old context removes it by itself. */
	cm_registry_await_removal(ctx);
	if (!cm_registry_read(ctx).ctx)
		return;
	cm_registry_begin_teardown(ctx);
	if (cache)
		cm_cache_lock_contexts(cache);
	cm_context_forget(cache, ctx);
	if (cache)
		cm_cache_unlock_contexts(cache);
}

void cm_context_forget_all(void)
{
	cm_registry_forget_all();
	cm_context_forget_streams();
	cm_host_work_forget_all();
	cm_graph_work_forget_all();
	(void)cm_unusual_set(CM_UNUSUAL_STOPPED, false);
}
