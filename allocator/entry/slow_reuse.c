/* SPDX-License-Identifier: MIT */
#include "allocator/entry/slow_reuse.h"

#include "allocator/base/size_class.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/epoch.h"

/* While no barrier may be laid, freed memory piles up if the device lags. Up to this much of it, or
 * a quarter of what is in use, requests take new memory; beyond that the host waits, as a cudaFree
 * would. */
#define RUN_AHEAD_BYTES (UINT64_C(64) << 20)

/* After this time the device may have caught up with the program: poll again. */
#define POLL_ANEW_NS UINT64_C(10000000)

static bool runs_too_far_ahead(struct cm_heap *heap)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    heap->row->pending_bytes > heap->live_bytes / 4 + RUN_AHEAD_BYTES);
}

/* Whether to query behind so many attempts in a row that found nothing ready: behind 0, 1, 3, 7 and
 * so on, since the answer would be the same, and every 64 times. */
static bool is_query_due(uint32_t misses)
{
	return !(misses & (misses + 1)) || misses % 64 == 63;
}

/* Makes freed memory ready as the policy says, after a query did not, or in place of it. */
static bool make_ready_event_locked(struct cm_heap *heap, bool has_queried)
{
	if (heap->cache->policy.reuse == CM_REUSE_BARRIER && cm_epoch_barrier_event_locked(heap))
		return true;
	/* The device may be idle, or done by the next request. */
	return (cm_epoch_close_event_locked(heap) || !has_queried) &&
	       cm_epoch_poll_event_locked(heap);
}

/* Whether anything is pending: even a small block may merge with free neighbours to one that fits,
 * and a poll costs less than new memory. */
static bool is_anything_pending(const struct cm_heap *heap)
{
	return cm_heap_pending_bytes(heap) > 0;
}

static void note_lag(struct cm_heap *heap)
{
	cm_lock_acquire(&heap->device->lock);
	cm_poll_policy_note_lag_locked(heap);
	cm_lock_release(&heap->device->lock);
}

/* Whether more memory may stay pending, so that no poll is needed. */
static bool gathers_event_locked(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	struct cm_lock *lock = &heap->device->lock;
	uint64_t free_bytes = 0, total, bytes;

	if (CM_WITH_LOCK(lock, cm_poll_policy_polls_locked(heap)))
		return false;
	bytes = cm_slow_segment_bytes(request);
	/* Without a barrier, a request would wait for everything that was gathered. */
	if (!cm_epoch_may_order_event_locked(heap) || !cm_slow_stands(request) ||
	    ops->mem_info(request->ctx, &free_bytes, &total))
		free_bytes = 0;
	return CM_WITH_LOCK(lock, cm_poll_policy_gather_locked(heap, bytes, free_bytes));
}

static void stop_gathering(struct cm_heap *heap)
{
	cm_lock_acquire(&heap->device->lock);
	cm_poll_policy_stop_gathering_locked(heap->device);
	cm_lock_release(&heap->device->lock);
}

/* Queries the closed epochs, and if those are ready, the open one, until a block serves. Takes
 * that; -ENOENT: none does. If a barrier may be laid (`orders`), no block waits for one: then
 * closed epochs are all that there is to query. */
static int query_event_locked(const struct cm_slow_request *request, bool orders, bool *ret_ready,
			      bool *ret_idle)
{
	struct cm_heap *heap = request->heap;
	const bool has_closed = !cm_batch_ring_is_empty(&heap->epochs);
	int err = -ENOENT;

	*ret_ready = (has_closed || !orders) && cm_epoch_poll_event_locked(heap);
	if (*ret_ready)
		err = cm_slow_take_unfragmenting(request);
	if (err != -ENOENT || (has_closed && !*ret_ready))
		return err;
	*ret_idle = cm_epoch_poll_open_event_locked(heap);
	*ret_ready |= *ret_idle;
	return *ret_idle ? cm_slow_take_unfragmenting(request) : -ENOENT;
}

/* Polls, lays a barrier if the device is not idle, and takes what is ready then. If a barrier may
 * be laid (`orders`) and the device lags, most polls make no query. */
static int poll_once_event_locked(const struct cm_slow_request *request, bool orders)
{
	struct cm_heap *heap = request->heap;
	const bool queries = !orders || is_query_due(heap->lags);
	bool ready = false, idle = false;
	int err = -ENOENT;

	if (queries)
		err = query_event_locked(request, orders, &ready, &idle);
	heap->lags = ready ? 0 : heap->lags + 1;
	if (err == -ENOENT && !idle && make_ready_event_locked(heap, queries)) {
		ready = true;
		err = cm_slow_take_unfragmenting(request);
	}
	if (!ready)
		note_lag(heap);
	return err;
}

/* ---- memory that becomes ready only by events or waits ---- */

/* Whether to poll: not at each request in a row that finds nothing ready. After some time the
 * answer may be another one. */
static bool should_poll(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	const struct cm_bins *bins = &heap->bins[cm_size_pool(request->size)];
	bool polls;

	cm_lock_acquire(&heap->device->lock);
	/* A ready block would serve: there is another reason to poll. */
	polls = heap->card_fills_up || cm_bins_find(bins, request->size).index;
	if (!polls) {
		polls = is_query_due(heap->misses) ||
			heap->cache->ops->now_ns() - heap->polled_ns >= POLL_ANEW_NS;
		heap->misses++;
	}
	if (polls)
		cm_poll_policy_note_poll_locked(heap);
	cm_lock_release(&heap->device->lock);
	return polls;
}

static int poll_seldom(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	int err = CM_WITH_LOCK(&heap->cache->event_lock, poll_once_event_locked(request, false));

	if (err == -ENOENT)
		err = cm_slow_take_unfragmenting(request);
	cm_lock_acquire(&heap->device->lock);
	if (err != -ENOENT)
		heap->misses = 0;
	heap->polled_ns = heap->cache->ops->now_ns();
	cm_lock_release(&heap->device->lock);
	return err;
}

/* Whether a batch is pending, and half a batch that was freed later: the device works on that while
 * the host waits for the batch. An old driver waits for all. */
static bool is_room_full(struct cm_heap *heap)
{
	const uint64_t oldest = cm_epoch_oldest_bytes(heap);
	uint64_t waits, batch;

	cm_lock_acquire(&heap->device->lock);
	waits = heap->row->pending_bytes;
	batch = heap->device->poll_bytes;
	cm_lock_release(&heap->device->lock);
	if (!(heap->can & CM_CAN_CTX_EVENTS))
		return oldest && waits >= batch;
	return oldest && waits >= oldest + batch / 2 && waits >= batch + batch / 2;
}

static bool is_worth_a_wait(struct cm_heap *heap)
{
	return is_anything_pending(heap) && (heap->cache->policy.reuse == CM_REUSE_WAIT ||
					     is_room_full(heap) || runs_too_far_ahead(heap));
}

static bool is_waited_for(struct cm_heap *heap)
{
	return CM_WITH_LOCK(&heap->cache->event_lock, cm_epoch_is_waited_for_event_locked(heap));
}

static bool wait_for_freed(struct cm_heap *heap)
{
	return heap->cache->policy.reuse != CM_REUSE_WAIT && is_waited_for(heap)
		       ? cm_epoch_wait_for_oldest(heap)
		       : cm_epoch_wait_as_native(heap);
}

/* Sparing a block is not worth a wait. */
static int take_behind_wait(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	uint64_t waits = UINT64_MAX;
	int err = cm_slow_take(request);

	while (err == -ENOENT && cm_heap_pending_bytes(heap) < waits && is_worth_a_wait(heap)) {
		waits = cm_heap_pending_bytes(heap);
		err = wait_for_freed(heap) ? cm_slow_take_unfragmenting(request) : -EBUSY;
	}
	if (err != -EBUSY && is_anything_pending(heap))
		note_lag(heap);
	return err;
}

/* Polls seldom, and waits once too much is pending. */
static int reuse_by_event(const struct cm_slow_request *request)
{
	const int err = should_poll(request) ? poll_seldom(request)
					     : cm_slow_take_unfragmenting(request);

	return err == -ENOENT && is_worth_a_wait(request->heap) ? take_behind_wait(request) : err;
}

int cm_slow_reuse(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	bool waits, gathers;
	int err = -ENOENT;

	if (!is_anything_pending(heap))
		return cm_slow_take_unfragmenting(request);
	cm_lock_acquire(&heap->cache->event_lock);
	waits = cm_epoch_is_waited_for_event_locked(heap);
	gathers = !waits && gathers_event_locked(request);
	if (!waits && !gathers)
		err = poll_once_event_locked(request, true);
	cm_lock_release(&heap->cache->event_lock);
	if (waits) {
		stop_gathering(heap);
		return reuse_by_event(request);
	}
	if (err == -ENOENT)
		err = cm_slow_take_unfragmenting(request);
	if (err != -ENOENT || gathers || !runs_too_far_ahead(heap))
		return err;
	stop_gathering(heap);
	return take_behind_wait(request);
}
