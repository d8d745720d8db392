/* SPDX-License-Identifier: MIT */
#include "allocator/entry/slow_path.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/heap.h"
#include "allocator/entry/shard.h"
#include "allocator/entry/slow_reuse.h"
#include "allocator/oom/oom.h"
#include "allocator/paged/paged.h"
#include "allocator/reclaim/exchange.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/limit.h"
#include "allocator/state/pending_release.h"
#include "allocator/state/report.h"
#include "allocator/state/suspended.h"

#define TRIES 8 /* of a request that others are faster than */

static void note_refusal(struct cm_heap *heap, uint64_t bytes)
{
	cm_lock_acquire(&heap->device->lock);
	cm_fragmentation_note_refusal_locked(heap, bytes);
	cm_lock_release(&heap->device->lock);
}

/* The driver is not asked again for what it has refused, unless memory has returned since. */
static int driver_alloc(const struct cm_slow_request *request, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_heap *heap = request->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	const struct cm_slow_refusal refusal = {bytes, cm_cache_returns(heap->cache)};
	uint64_t start;
	int err;

	if ((request->refusal->bytes == bytes && request->refusal->returns == refusal.returns) ||
	    !cm_limit_take(heap->device, bytes))
		return CM_DRIVER_OUT_OF_MEMORY;
	start = ops->now_ns();
	err = ops->mem_alloc(request->ctx, bytes, ret_addr);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns, (int64_t)(ops->now_ns() - start));
	if (err)
		cm_limit_give(heap->device, bytes);
	if (err == CM_DRIVER_OUT_OF_MEMORY) {
		*request->refusal = refusal;
		note_refusal(heap, bytes);
	}
	return err;
}

/* Enters memory that the driver has just given as a new segment. `gone`: of the heap, before the
 * driver was asked. -EAGAIN: caching has stopped meanwhile, or the context is gone. */
static int enter_segment_locked(const struct cm_slow_request *request,
				const struct cm_pending_release *given, uint32_t gone,
				uint32_t flags)
{
	struct cm_heap *heap = request->heap;

	if (!cm_heap_stands(heap, request->ctx, gone) ||
	    (cm_heap_drains(heap) && !(flags & CM_SEGMENT_DIRECT)))
		return -EAGAIN;
	return cm_heap_take_new_locked(heap, given->addr, given->size, flags, request->size,
				       request->bytes);
}

/* The driver may be destroying its context, in which caching has stopped: no call may name it. If
 * the driver refuses, it returns as all free memory there does. False: no rows are left, or the
 * context is gone and took it along. */
static bool keep_locked(const struct cm_pending_release *given, uint32_t gone, uint32_t flags)
{
	struct cm_heap *heap = given->heap;
	uint32_t block;

	return cm_heap_stands(heap, given->ctx, gone) && cm_heap_drains(heap) &&
	       !cm_heap_add_segment_locked(heap, given->addr, given->size, flags, &block);
}

/* Gets a new segment of `segment_size`, and serves the request from it. What cannot be entered goes
 * back, and the end of its context waits for that. */
static int alloc_segment(const struct cm_slow_request *request, uint64_t segment_size,
			 uint32_t flags)
{
	struct cm_heap *heap = request->heap;
	struct cm_device *device = heap->device;
	struct cm_pending_release given = {.heap = heap, .ctx = request->ctx, .size = segment_size};
	const uint32_t gone = cm_heap_count_gone(heap);
	bool goes_back, stays;
	int err;

	if (!cm_slow_stands(request))
		return -EAGAIN;
	err = driver_alloc(request, segment_size, &given.addr);
	if (err)
		return err;
	cm_cache_await_place(heap->cache, given.addr, segment_size);
	cm_heap_forget_lost(heap->cache, given.addr);
	cm_lock_acquire(&device->lock);
	err = enter_segment_locked(request, &given, gone, flags);
	goes_back = err && cm_pending_release_begin_new_locked(&device->releases, &given, gone);
	stays = !err || (!goes_back && keep_locked(&given, gone, flags));
	cm_lock_release(&device->lock);
	if (!err)
		*request->ret_addr = given.addr;
	if (goes_back)
		cm_release_give(&given);
	else if (!stays)
		cm_limit_give(device, segment_size);
	return err;
}

static uint32_t segment_flags(const struct cm_slow_request *request)
{
	const enum cm_placement placement = request->heap->cache->policy.placement;

	return (placement == CM_PLACEMENT_EXACT ? CM_SEGMENT_EXACT : 0) |
	       (request->size <= CM_SMALL_MAX ? CM_SEGMENT_SMALL : 0);
}

static int alloc_new(const struct cm_slow_request *request)
{
	int err = -ENOENT;

	if (cm_paged_serves(request->heap))
		err = cm_paged_alloc(request->heap, request->ctx, request->size, request->bytes,
				     request->ret_addr);
	if (err != -ENOENT)
		return err;
	return alloc_segment(request, cm_slow_segment_bytes(request), segment_flags(request));
}

static void note_oom(const struct cm_slow_request *request, struct cm_oom_attempt *attempt)
{
	attempt->bytes = request->bytes;
	attempt->size = request->size;
	attempt->capped = cm_limit_refuses(request->heap->device, request->size);
	cm_oom_note(request->heap, attempt, request->oom);
}

/* PyTorch's order and counters. */
static int give_back_and_retry(const struct cm_slow_request *request,
			       struct cm_oom_attempt *attempt)
{
	struct cm_heap *heap = request->heap;
	struct cm_device *device = heap->device;
	int err, take;

	if (cm_release_oversize(heap, request->size, &attempt->given_back)) {
		err = alloc_new(request);
		if (err != CM_DRIVER_OUT_OF_MEMORY)
			return err;
	}
	if (!cm_epoch_wait_device(device, CM_STUCK_NS))
		return -EBUSY;
	/* With pages no block is taken yet for which a handle would be divided: whole handles
	 * return first, and then there may be room for new pages. */
	err = cm_paged_serves(heap) ? cm_slow_take_unfragmenting(request)
				    : cm_shard_take_anywhere(request);
	if (err != -ENOENT)
		return err;
	attempt->given_back += cm_release_free(device);
	/* Waits for what other threads have taken out of the tables; the reclaim lock is not
	 * held. */
	if (!cm_release_await_pending(device, CM_STUCK_NS))
		return -EBUSY;
	cm_device_count(device, CM_SCALAR_num_alloc_retries, 1);
	err = alloc_new(request);
	if (err != CM_DRIVER_OUT_OF_MEMORY)
		return err;
	take = cm_shard_take_anywhere(request);
	return take == -ENOENT ? err : take;
}

/* Other processes may have idle memory that this one lacks. Outside the gate, as they take time to
 * answer. */
static int ask_and_retry(const struct cm_slow_request *request, struct cm_oom_attempt *attempt)
{
	struct cm_device *device = request->heap->device;
	const struct cm_driver_ops *ops = device->cache->ops;
	uint64_t free_bytes = 0, total, wanted;

	if (!ops->ask_peers || !device->cache->policy.peer_processes || !cm_slow_stands(request) ||
	    ops->mem_info(request->ctx, &free_bytes, &total))
		return CM_DRIVER_OUT_OF_MEMORY;
	/* Asks for no more than the peers can return; 0 only asks what each of them has idle. */
	wanted = cm_limit_refuses(device, request->size) || request->size > total ? 0
										  : request->size;
	if (wanted && free_bytes < wanted)
		wanted += CM_SEGMENT_GRAIN - free_bytes;
	ops->gate_leave();
	ops->ask_peers(device->first->row->uuid, wanted, &attempt->peers);
	cm_device_count(device, CM_SCALAR_peer_asks, attempt->peers.asked != 0);
	cm_device_count(device, CM_SCALAR_peer_bytes_got, (int64_t)attempt->peers.given_bytes);
	if (attempt->peers.given_bytes)
		request->refusal->bytes = 0;
	if (!cm_gate_enter(ops))
		return -EBUSY;
	return attempt->peers.given_bytes ? alloc_new(request) : CM_DRIVER_OUT_OF_MEMORY;
}

/* The small request as one for a block of the large pool: rather than fail it takes such a block,
 * since the driver would cut it out of any memory, too. */
static struct cm_slow_request as_large(const struct cm_slow_request *request)
{
	struct cm_slow_request large = *request;

	large.size = CM_SMALL_MAX + CM_GRAIN;
	return large;
}

static int take_large(const struct cm_slow_request *request)
{
	const struct cm_slow_request large = as_large(request);

	return request->size <= CM_SMALL_MAX ? cm_shard_take_anywhere(&large) : -ENOENT;
}

/* What the program would have requested without us: its own size instead of a whole segment. First
 * as the driver rounds that up: else the cache would not know of the rest, and cuMemGetInfo would
 * not count it. */
static int alloc_least(const struct cm_slow_request *request)
{
	int err = CM_DRIVER_OUT_OF_MEMORY;

	if (request->size > CM_SMALL_MAX && request->size < CM_MEDIUM_MAX)
		err = alloc_segment(request, cm_size_of_driver(request->size),
				    segment_flags(request));
	return err == CM_DRIVER_OUT_OF_MEMORY
		       ? alloc_segment(request, request->size, segment_flags(request))
		       : err;
}

/* Takes a block that was spared; else returns idle memory, asks peer processes, and asks the driver
 * again. */
static int try_all(const struct cm_slow_request *request, struct cm_oom_attempt *attempt)
{
	int err = cm_shard_take_anywhere(request), take;

	if (err != -ENOENT)
		return err;
	if (!cm_release_await_suspended(request->heap->device, CM_STUCK_NS))
		return -EBUSY;
	err = cm_epoch_quiesces(request->heap->device, CM_STUCK_NS);
	if (err == -EBUSY)
		return err;
	attempt->busy = err != 0;
	err = attempt->busy ? CM_DRIVER_OUT_OF_MEMORY : give_back_and_retry(request, attempt);
	if (err == CM_DRIVER_OUT_OF_MEMORY && (take = take_large(request)) != -ENOENT)
		return take;
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		err = ask_and_retry(request, attempt);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		err = alloc_least(request);
	return err;
}

static uint64_t count_frees(struct cm_device *device)
{
	const struct cm_stat_pool *stat;
	struct cm_device *each;
	uint64_t frees = 0;

	for (each = device->first; each; each = cm_device_next_shard(each)) {
		stat = each->row->stat;
		frees += (uint64_t)CM_WITH_LOCK(
			&each->lock, stat[CM_POOL_SMALL].freed[CM_STAT_ALLOCATION] +
					     stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION]);
	}
	return frees;
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
static bool were_in_the_way(const struct cm_slow_request *request, const struct others *before)
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
static int after_failure(const struct cm_slow_request *request)
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
static int make_way(const struct cm_slow_request *request)
{
	struct cm_device *device = request->heap->device;
	int err = 0;

	if (cm_limit_bytes(device)) {
		if (!cm_gate_lock(device->cache->ops, &device->first->reclaim_lock))
			return -EBUSY;
		err = cm_release_aged(request->heap);
		cm_lock_release(&device->first->reclaim_lock);
	}
	if (!err && request->size > CM_SMALL_MAX)
		err = cm_exchange(request->heap, cm_slow_segment_bytes(request));
	return err;
}

/* If the limit or the driver has just refused such a segment, takes a spared block, or for a small
 * request one of the large pool: neither the driver is asked, nor the device waited for, at each
 * request. Pages can be moved instead. -ENOENT: ask the driver. */
static int take_if_refused(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap;
	const struct cm_slow_request large = as_large(request);
	const uint64_t bytes = cm_slow_segment_bytes(request);

	if (cm_paged_serves(heap) ||
	    (!cm_limit_refuses(heap->device, bytes) &&
	     !CM_WITH_LOCK(&heap->device->lock, cm_fragmentation_is_refused_locked(heap, bytes))))
		return -ENOENT;
	return request->size <= CM_SMALL_MAX ? cm_slow_take_unfragmenting(&large)
					     : cm_slow_take(request);
}

/* -EBUSY: a capture has begun meanwhile, and the caller is outside the gate; nothing else in here
 * returns that. */
static int serve_request(const struct cm_slow_request *request)
{
	struct cm_device *device = request->heap->device;
	int err;

	err = cm_slow_reuse(request);
	if (err == -ENOENT && cm_device_has_shards(device))
		err = cm_shard_take_from_others(request);
	if (err != -ENOENT)
		return err;
	err = make_way(request);
	if (!err)
		err = take_if_refused(request);
	if (err == -ENOENT)
		err = alloc_new(request);
	if (err != CM_DRIVER_OUT_OF_MEMORY)
		return err;
	if (!cm_gate_lock(device->cache->ops, &device->first->reclaim_lock))
		return -EBUSY;
	err = after_failure(request);
	cm_lock_release(&device->first->reclaim_lock);
	return err;
}

int cm_slow_path_alloc(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	struct cm_oom oom; /* half a kilobyte, not filled in unless the request fails */
	struct cm_slow_refusal refusal = {0, 0};
	struct cm_slow_request request = {heap, cm_heap_ctx(heap), size, bytes, ret_addr,
					  &oom, &refusal};
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err;

	oom.nth = 0;
	if (cm_heap_drains(heap))
		return -EAGAIN;
	request.heap = heap = cm_shard_choose(heap);
	if (!ops->gate_enter())
		return -EBUSY;
	err = cm_release_unreclaimed(heap->device);
	if (!err)
		err = serve_request(&request);
	if (err != -EBUSY)
		ops->gate_leave();
	else if (!cm_slow_take(&request))
		err = 0; /* a spared block, before the capture began */
	if (!err)
		cm_oom_note_served(heap, size, bytes, &oom);
	if (CM_UNLIKELY(oom.nth))
		cm_oom_tell(heap->cache, &oom);
	return err;
}

static int take_any(const struct cm_slow_request *request)
{
	const int err = cm_shard_take_anywhere(request);

	return err == -ENOENT ? take_large(request) : err;
}

int cm_slow_path_take_freed(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	const struct cm_slow_request request = {.heap = heap,
						.ctx = cm_heap_ctx(heap),
						.size = size,
						.bytes = bytes,
						.ret_addr = ret_addr};
	int err = take_any(&request);
	struct cm_heap *each;
	uint32_t at = 0;

	while (err == -ENOENT && (each = cm_heap_next_shard(heap, &at)))
		if (cm_heap_pending_bytes(each)) {
			cm_epoch_wait_ungated(each);
			err = take_any(&request);
		}
	return err ? -ENOENT : 0; /* the context may have gone */
}

/* Retries if the driver has got back memory meanwhile that could not be returned before: a capture
 * was active, or the context was suspended. -EBUSY as in serve_request. */
static int alloc_direct(const struct cm_slow_request *request)
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
	(void)cm_cache_make_room_on(heap->cache, heap->device->first->index);
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
	struct cm_slow_refusal refusal = {0, 0};
	const struct cm_slow_request request = {heap, cm_heap_ctx(heap), bytes, bytes, ret_addr,
						&oom, &refusal};
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
