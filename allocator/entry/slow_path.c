/* SPDX-License-Identifier: MIT */
#include "allocator/entry/slow_path.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/heap.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/oom/oom.h"
#include "allocator/paged/paged.h"
#include "allocator/reclaim/exchange.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/limit.h"
#include "allocator/state/report.h"

/* While no barrier may be laid, freed memory piles up if the device lags. Up to this much of it, or
 * a quarter of what is in use, requests take new memory; beyond that the host waits, as a cudaFree
 * would. */
#define RUN_AHEAD_BYTES (UINT64_C(64) << 20)

/* After this time the device may have caught up with the program: poll again. */
#define ASK_ANEW_NS UINT64_C(10000000)

#define TRIES 8 /* of a request that others are faster than */

struct request {
	struct cm_heap *heap;
	uint64_t ctx;   /* of the heap when the request came */
	uint64_t size;  /* rounded */
	uint64_t bytes; /* as the program requested */
	uint64_t *ret_addr;
	struct cm_oom *oom; /* filled in if it fails for lack of memory */
};

/* Whether the heap is still that of the context. If not, the request goes to the driver. */
static bool stands(const struct request *request)
{
	return request->ctx && cm_heap_ctx(request->heap) == request->ctx;
}

static int take_ready_by(const struct request *request,
			 int (*take_locked)(struct cm_heap *heap, uint64_t size, uint64_t bytes,
					    uint64_t *ret_addr))
{
	struct cm_device *device = request->heap->device;
	int err = -EAGAIN;

	cm_lock_acquire(&device->lock);
	if (stands(request))
		err = take_locked(request->heap, request->size, request->bytes, request->ret_addr);
	cm_lock_release(&device->lock);
	return err;
}

/* A ready block. -ENOENT: there is none, -EAGAIN: the context has gone. */
static int take_ready(const struct request *request)
{
	return take_ready_by(request, cm_heap_take_locked);
}

/* The same, without spared blocks. */
static int take_unfragmenting(const struct request *request)
{
	return take_ready_by(request, cm_heap_take_unfragmenting_locked);
}

static bool runs_too_far_ahead(struct cm_heap *heap)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    heap->row->pending_bytes > heap->live_bytes / 4 + RUN_AHEAD_BYTES);
}

/* Makes freed memory ready as the policy says, after a poll did not. */
static bool make_ready_event_locked(struct cm_heap *heap)
{
	if (heap->cache->policy.reuse == CM_REUSE_BARRIER && cm_epoch_barrier_event_locked(heap))
		return true;
	/* The device may be idle, or done by the next request. */
	return cm_epoch_close_event_locked(heap) && cm_epoch_poll_event_locked(heap);
}

/* Whether anything is pending: even a small block may merge with free neighbours to one that fits,
 * and a poll costs less than new memory. */
static bool is_anything_pending(const struct cm_heap *heap)
{
	return cm_heap_pending_bytes(heap) > 0;
}

static void pause_asking(struct cm_heap *heap)
{
	cm_lock_acquire(&heap->device->lock);
	cm_poll_policy_pause_locked(heap);
	cm_lock_release(&heap->device->lock);
}

static uint64_t segment_bytes(const struct request *request)
{
	struct cm_device *device = request->heap->device;

	return CM_WITH_LOCK(&device->lock,
			    cm_fragmentation_segment_bytes_locked(request->heap, request->size));
}

/* Whether more memory may stay pending, so that no poll is needed. */
static bool gathers(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	struct cm_lock *lock = &heap->device->lock;
	uint64_t free_bytes = 0, total, bytes;

	if (CM_WITH_LOCK(lock, cm_poll_policy_polls_locked(heap)))
		return false;
	bytes = segment_bytes(request);
	/* Without a barrier, a request would wait for everything that was gathered. */
	if (!cm_epoch_may_order(heap) || !stands(request) ||
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

/* Polls, lays a barrier if that does not serve, and takes what is ready then. */
static int ask(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	struct cm_cache *cache = heap->cache;
	int err = -ENOENT;
	bool ready;

	cm_lock_acquire(&cache->event_lock);
	ready = cm_epoch_poll_event_locked(heap);
	if (ready)
		err = take_unfragmenting(request);
	if (err == -ENOENT && make_ready_event_locked(heap)) {
		ready = true;
		err = take_unfragmenting(request);
	}
	cm_lock_release(&cache->event_lock);
	if (!ready)
		pause_asking(heap);
	return err == -ENOENT ? take_unfragmenting(request) : err;
}

/* ---- memory that becomes ready only by events or waits ---- */

/*
 * Whether to poll: at the first, second, fourth, eighth request in a row that finds nothing ready,
 * since the answer to the others would be the same. After some time it may be another one.
 */
static bool is_asked(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	const enum cm_pool pool = request->size <= CM_SMALL_MAX ? CM_POOL_SMALL : CM_POOL_LARGE;
	bool asked;

	cm_lock_acquire(&heap->device->lock);
	/* A ready block would serve: there is another reason to poll. */
	asked = heap->card_fills_up || cm_bins_find(&heap->bins[pool], request->size);
	if (!asked) {
		asked = !(heap->misses & (heap->misses + 1)) ||
			heap->cache->ops->now_ns() - heap->asked_ns >= ASK_ANEW_NS;
		heap->misses++;
	}
	cm_lock_release(&heap->device->lock);
	return asked;
}

static int ask_seldom(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	const int err = ask(request);

	cm_lock_acquire(&heap->device->lock);
	if (err != -ENOENT)
		heap->misses = 0;
	heap->asked_ns = heap->cache->ops->now_ns();
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
static int take_behind_wait(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	uint64_t waits = UINT64_MAX;
	int err = take_ready(request);

	while (err == -ENOENT && cm_heap_pending_bytes(heap) < waits && is_worth_a_wait(heap)) {
		waits = cm_heap_pending_bytes(heap);
		err = wait_for_freed(heap) ? take_unfragmenting(request) : -EBUSY;
	}
	if (err != -EBUSY && is_anything_pending(heap))
		pause_asking(heap);
	return err;
}

/* Polls seldom, and waits once too much is pending. */
static int reuse_done(const struct request *request)
{
	const int err = is_asked(request) ? ask_seldom(request) : take_unfragmenting(request);

	return err == -ENOENT && is_worth_a_wait(request->heap) ? take_behind_wait(request) : err;
}

/* ---- */

/* Serves from memory that the program has freed: polls, lays a barrier, or waits. -ENOENT: none
 * serves. */
static int reuse_freed(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	int err;

	if (!is_anything_pending(heap))
		return take_unfragmenting(request);
	if (is_waited_for(heap)) {
		stop_gathering(heap);
		return reuse_done(request);
	}
	if (gathers(request))
		return take_unfragmenting(request);
	err = ask(request);
	if (err != -ENOENT || !runs_too_far_ahead(heap))
		return err;
	stop_gathering(heap);
	return take_behind_wait(request);
}

static void note_refusal(struct cm_heap *heap, uint64_t bytes)
{
	cm_lock_acquire(&heap->device->lock);
	cm_fragmentation_note_refusal_locked(heap, bytes);
	cm_lock_release(&heap->device->lock);
}

static int driver_alloc(const struct request *request, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_heap *heap = request->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t start;
	int err;

	if (!cm_limit_take(heap->device, bytes))
		return CM_DRIVER_OUT_OF_MEMORY;
	start = ops->now_ns();
	err = ops->mem_alloc(request->ctx, bytes, ret_addr);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns, (int64_t)(ops->now_ns() - start));
	if (err)
		cm_limit_give(heap->device, bytes);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		note_refusal(heap, bytes);
	return err;
}

/* Enters a new segment. -EAGAIN: caching has stopped meanwhile, or the context is gone. */
static int enter_segment_locked(const struct request *request, uint64_t addr, uint64_t segment_size,
				uint32_t flags)
{
	struct cm_heap *heap = request->heap;

	if (!stands(request) || (cm_heap_drains(heap) && !(flags & CM_SEGMENT_DIRECT)))
		return -EAGAIN;
	return cm_heap_take_new_locked(heap, addr, segment_size, flags, request->size,
				       request->bytes);
}

/* Gets a new segment of `segment_size`, and serves the request from it. */
static int alloc_segment(const struct request *request, uint64_t segment_size, uint32_t flags)
{
	struct cm_heap *heap = request->heap;
	uint64_t addr = 0;
	int err;

	if (!stands(request))
		return -EAGAIN;
	err = driver_alloc(request, segment_size, &addr);
	if (err)
		return err;
	cm_cache_await_place(heap->cache, addr, segment_size);
	cm_lock_acquire(&heap->device->lock);
	err = enter_segment_locked(request, addr, segment_size, flags);
	cm_lock_release(&heap->device->lock);
	if (!err)
		*request->ret_addr = addr;
	else if (stands(request))
		(void)cm_release_to_driver(heap->device, request->ctx, addr, segment_size);
	else
		cm_limit_give(heap->device, segment_size); /* the context took it along */
	return err;
}

static uint32_t segment_flags(const struct request *request)
{
	const enum cm_placement placement = request->heap->cache->policy.placement;

	return (placement == CM_PLACEMENT_EXACT ? CM_SEGMENT_EXACT : 0) |
	       (request->size <= CM_SMALL_MAX ? CM_SEGMENT_SMALL : 0);
}

static int alloc_new(const struct request *request)
{
	int err = -ENOENT;

	if (cm_paged_serves(request->heap))
		err = cm_paged_alloc(request->heap, request->ctx, request->size, request->bytes,
				     request->ret_addr);
	if (err != -ENOENT)
		return err;
	return alloc_segment(request, segment_bytes(request), segment_flags(request));
}

static void note_oom(const struct request *request, struct cm_oom_attempt *attempt)
{
	attempt->bytes = request->bytes;
	attempt->size = request->size;
	attempt->capped = cm_limit_refuses(request->heap->device, request->size);
	cm_oom_note(request->heap, attempt, request->oom);
}

/* PyTorch's order and counters. */
static int give_back_and_retry(const struct request *request, struct cm_oom_attempt *attempt)
{
	struct cm_heap *heap = request->heap;
	struct cm_device *device = heap->device;
	int err;

	if (cm_release_oversize(heap, request->size, &attempt->given_back)) {
		err = alloc_new(request);
		if (err != CM_DRIVER_OUT_OF_MEMORY)
			return err;
	}
	if (!cm_epoch_wait_device(device, CM_STUCK_NS))
		return -EBUSY;
	err = take_ready(request);
	if (err != -ENOENT)
		return err;
	attempt->given_back += cm_release_free(device);
	/* Waits for what other threads have taken out of the tables; the reclaim lock is not
	 * held. */
	if (!cm_pending_releases_await(&device->releases, device->cache->ops, CM_STUCK_NS))
		return -EBUSY;
	cm_device_count(device, CM_SCALAR_num_alloc_retries, 1);
	return alloc_new(request);
}

/* Other processes may have idle memory that this one lacks. Outside the gate, as they take time to
 * answer. */
static int ask_and_retry(const struct request *request, struct cm_oom_attempt *attempt)
{
	struct cm_device *device = request->heap->device;
	const struct cm_driver_ops *ops = device->cache->ops;
	uint64_t free_bytes = 0, total, wanted;

	if (!ops->ask_peers || !device->cache->policy.peer_processes || !stands(request) ||
	    ops->mem_info(request->ctx, &free_bytes, &total))
		return CM_DRIVER_OUT_OF_MEMORY;
	/* Asks for no more than the peers can return; 0 only asks what each of them has idle. */
	wanted = cm_limit_refuses(device, request->size) || request->size > total ? 0
										  : request->size;
	if (wanted && free_bytes < wanted)
		wanted += CM_SEGMENT_GRAIN - free_bytes;
	ops->gate_leave();
	ops->ask_peers(device->row->uuid, wanted, &attempt->peers);
	cm_device_count(device, CM_SCALAR_peer_asks, attempt->peers.asked != 0);
	cm_device_count(device, CM_SCALAR_peer_bytes_got, (int64_t)attempt->peers.given_bytes);
	if (!cm_gate_enter(ops))
		return -EBUSY;
	return attempt->peers.given_bytes ? alloc_new(request) : CM_DRIVER_OUT_OF_MEMORY;
}

/* Returns idle memory, asks peer processes, and asks the driver again. The last step requests what
 * the program would have requested without us: its own size instead of a whole segment. */
static int try_all(const struct request *request, struct cm_oom_attempt *attempt)
{
	int err = take_ready(request);

	if (err != -ENOENT)
		return err;
	if (!cm_release_await_suspended(request->heap->device, CM_STUCK_NS))
		return -EBUSY;
	err = cm_epoch_quiesces(request->heap->device, CM_STUCK_NS);
	if (err == -EBUSY)
		return err;
	attempt->busy = err != 0;
	err = attempt->busy ? CM_DRIVER_OUT_OF_MEMORY : give_back_and_retry(request, attempt);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		err = ask_and_retry(request, attempt);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		err = alloc_segment(request, request->size, segment_flags(request));
	return err;
}

static uint64_t count_frees(struct cm_device *device)
{
	const struct cm_stat_pool *stat = device->row->stat;

	return (uint64_t)CM_WITH_LOCK(&device->lock,
				      stat[CM_POOL_SMALL].freed[CM_STAT_ALLOCATION] +
					      stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION]);
}

/* What other threads have done so far that may have kept memory from this request. */
struct others {
	uint64_t frees;
	uint64_t suspensions;
};

static struct others see_others(struct cm_device *device)
{
	return (struct others){.frees = count_frees(device),
			       .suspensions = cm_release_suspensions(device->cache)};
}

/* Whether they have done more since, and there is memory that could be returned. */
static bool were_in_the_way(const struct request *request, const struct others *before)
{
	struct cm_device *device = request->heap->device;
	const struct others now = see_others(device);

	return (now.frees != before->frees || now.suspensions != before->suspensions) &&
	       (cm_release_has_suspended(device) ||
		cm_cache_returnable(device->cache, request->ctx));
}

/*
 * The driver is out of memory. One thread at a time, so that no request fails for memory that
 * another thread is just returning. Retries if another thread freed memory meanwhile and took what
 * was returned here, since the driver alone would have had both; or if one was about to destroy a
 * context.
 */
static int after_failure(const struct request *request)
{
	struct cm_oom_attempt attempt = {0};
	struct others others;
	int err, tries = TRIES;

	do {
		others = see_others(request->heap->device);
		err = try_all(request, &attempt);
	} while (err == CM_DRIVER_OUT_OF_MEMORY && !attempt.busy && --tries &&
		 were_in_the_way(request, &others));
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		note_oom(request, &attempt);
	return err;
}

/* Returns memory to the driver before more is taken from it. -EBUSY: outside the gate. */
static int make_way(const struct request *request)
{
	struct cm_device *device = request->heap->device;
	int err = 0;

	if (cm_limit_bytes(device)) {
		if (!cm_gate_lock(device->cache->ops, &device->reclaim_lock))
			return -EBUSY;
		err = cm_release_aged(request->heap);
		cm_lock_release(&device->reclaim_lock);
	}
	if (!err && request->size > CM_SMALL_MAX)
		err = cm_exchange(request->heap, segment_bytes(request));
	return err;
}

/* Whether a spared block would serve. On pages this does not count: there, pages are moved
 * instead. */
static bool has_spared(const struct request *request)
{
	struct cm_heap *heap = request->heap;

	return request->size > CM_SMALL_MAX &&
	       CM_WITH_LOCK(&heap->device->lock,
			    heap->card_fills_up && !cm_paged_serves(heap) &&
				    cm_bins_find(&heap->bins[CM_POOL_LARGE], request->size));
}

/* Allocates a spared block, since the device is not done soon; later requests do not wait for
 * it. */
static int stop_sparing(const struct request *request)
{
	struct cm_device *device = request->heap->device;
	int err;

	cm_lock_acquire(&device->lock);
	cm_fragmentation_stop_locked(request->heap);
	cm_lock_release(&device->lock);
	err = take_ready(request);
	return err == -ENOENT ? CM_DRIVER_OUT_OF_MEMORY : err;
}

/* Exchanges idle segments for one of exactly the size. The reclaim lock is held. -EBUSY: outside
 * the gate. */
static int trade(const struct request *request)
{
	int err = cm_exchange_refused(request->heap, segment_bytes(request));

	if (err)
		return err == -EBUSY ? err : stop_sparing(request);
	return alloc_new(request);
}

/* -EBUSY: a capture has begun meanwhile, and the caller is outside the gate; nothing else in here
 * returns that. */
static int serve_request(const struct request *request)
{
	struct cm_device *device = request->heap->device;
	bool spared;
	int err;

	err = reuse_freed(request);
	if (err != -ENOENT)
		return err;
	spared = has_spared(request);
	err = make_way(request);
	if (!err)
		err = alloc_new(request);
	if (err != CM_DRIVER_OUT_OF_MEMORY)
		return err;
	if (!cm_gate_lock(device->cache->ops, &device->reclaim_lock))
		return -EBUSY;
	if (spared)
		err = trade(request);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		err = after_failure(request);
	cm_lock_release(&device->reclaim_lock);
	return err;
}

int cm_slow_path_alloc(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_oom oom; /* half a kilobyte, not filled in unless the request fails */
	const struct request request = {heap, cm_heap_ctx(heap), size, bytes, ret_addr, &oom};
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err;

	oom.nth = 0;
	if (cm_heap_drains(heap))
		return -EAGAIN;
	if (!ops->gate_enter())
		return -EBUSY;
	err = cm_release_unreclaimed(heap->device);
	if (!err)
		err = serve_request(&request);
	if (err != -EBUSY)
		ops->gate_leave();
	else if (!take_ready(&request))
		err = 0; /* a spared block, before the capture began */
	if (!err)
		cm_oom_note_served(heap, size, bytes, &oom);
	cm_oom_tell(heap->cache, &oom);
	return err;
}

/* Retries if the driver has got back memory meanwhile that could not be returned before: a capture
 * was active, or the context was suspended. -EBUSY as in serve_request. */
static int alloc_direct(const struct request *request)
{
	struct cm_heap *heap = request->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	const uint32_t flags = CM_SEGMENT_DIRECT | CM_SEGMENT_EXACT |
			       (request->size <= CM_SMALL_MAX ? CM_SEGMENT_SMALL : 0);
	const uint64_t returns = cm_cache_returns(heap->cache);
	int err = alloc_segment(request, request->size, flags);

	if (err != CM_DRIVER_OUT_OF_MEMORY)
		return err;
	/* That function enters the gate itself. */
	ops->gate_leave();
	(void)cm_cache_make_room_on(heap->cache, heap->device->index);
	if (!cm_gate_enter(ops))
		return -EBUSY;
	return cm_cache_returns(heap->cache) == returns
		       ? err
		       : alloc_segment(request, request->size, flags);
}

int cm_slow_path_alloc_direct(struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_oom oom = {0};
	struct cm_oom_attempt attempt = {0};
	const struct request request = {heap, cm_heap_ctx(heap), bytes, bytes, ret_addr, &oom};
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err;

	if (!ops->gate_enter())
		return -EBUSY;
	err = cm_release_unreclaimed(heap->device);
	if (!err)
		err = alloc_direct(&request);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		note_oom(&request, &attempt);
	if (err != -EBUSY)
		ops->gate_leave();
	if (!err)
		cm_oom_note_served(heap, bytes, bytes, &oom);
	cm_oom_tell(heap->cache, &oom);
	return err;
}
