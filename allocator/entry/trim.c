/* SPDX-License-Identifier: MIT */
/*
 * What is done outside requests: closes epochs before work, polls, and returns the cache.
 */
#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/paged/paged.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reclaim/flush.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/report.h"
#include "allocator/state/state.h"
#include "stats/counters.h"
#include "stats/tick.h"

/* How long a trim waits for work that may take its time. */
#define TRIM_LIMIT_NS CM_NS_PER_S

#define LOOKS 32 /* at most this many looks at what is free, while others return memory */

/* Calls `each` for every heap in use that is not suspended, with the event lock held and the gate
 * entered. */
static void for_each_heap_event_locked(struct cm_cache *cache, void (*each)(struct cm_heap *heap))
{
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;

	for (i = 0; i < n; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		if (heap->ctx && !cm_heap_is_suspended(heap))
			each(heap);
	}
}

static void close_worthy(struct cm_heap *heap)
{
	if (cm_epoch_is_worth_closing_event_locked(heap))
		(void)cm_epoch_close_event_locked(heap);
}

/* Free memory as the driver reports it, for the counters: the program and its peers take from it,
 * too. */
static void ask_free_bytes(struct cm_heap *heap)
{
	struct cm_device_row *row = heap->device->row;
	uint64_t free_bytes, total;

	if (!cm_heap_is_first(heap) || heap->cache->ops->mem_info(heap->ctx, &free_bytes, &total))
		return;
	cm_lock_acquire(&heap->device->lock);
	cm_counters_begin(row);
	cm_counters_note_free(row, free_bytes, heap->cache->ops->now_ns());
	cm_counters_end(row);
	cm_lock_release(&heap->device->lock);
}

static void poll_heap(struct cm_heap *heap)
{
	(void)cm_epoch_close_event_locked(heap);
	(void)cm_epoch_poll_event_locked(heap);
	ask_free_bytes(heap);
}

void cm_cache_before_work(struct cm_cache *cache)
{
	/* If the lock is taken, another thread closes it, or the next launch does. */
	if (!cache->ops->gate_enter())
		return;
	if (cm_lock_try(&cache->event_lock)) {
		atomic_store_explicit(&cache->wants_close, false, memory_order_relaxed);
		for_each_heap_event_locked(cache, close_worthy);
		cm_pinned_close_worthy_event_locked(cache);
		cm_lock_release(&cache->event_lock);
	}
	cache->ops->gate_leave();
}

/* If all batches are closed, the poll makes room for one more. */
static void close_open(struct cm_heap *heap)
{
	(void)cm_epoch_poll_event_locked(heap);
	(void)cm_epoch_close_event_locked(heap);
}

void cm_cache_before_capture(struct cm_cache *cache)
{
	if (!cache->ops->gate_enter())
		return;
	cm_lock_acquire(&cache->event_lock);
	for_each_heap_event_locked(cache, close_open);
	cm_lock_release(&cache->event_lock);
	cache->ops->gate_leave();
	cm_check_after(cache);
}

void cm_cache_poll(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);

	if (!cache->ops->gate_enter())
		return;
	cm_lock_acquire(&cache->event_lock);
	for_each_heap_event_locked(cache, poll_heap);
	(void)cm_pinned_close_event_locked(cache);
	(void)cm_pinned_poll_event_locked(cache);
	cm_lock_release(&cache->event_lock);
	for (i = 0; i < n; i++)
		if (cm_release_unreclaimed(cache->device[i]))
			return; /* outside of the gate */
	cm_paged_return_forgotten(cache);
	cache->ops->gate_leave();
}

void cm_cache_forgotten(struct cm_cache *cache)
{
	if (!cache->ops->gate_enter())
		return;
	cm_paged_return_forgotten(cache);
	cache->ops->gate_leave();
}

static int flush(struct cm_cache *cache, uint32_t device, uint64_t *bytes)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	int err = 0, one;

	for (i = 0; i < n; i++) {
		if ((device != UINT32_MAX && device != i) || !cm_device_is_first(cache->device[i]))
			continue;
		one = cm_flush_device(cache->device[i], TRIM_LIMIT_NS, bytes);
		cm_device_count(cache->device[i], CM_SCALAR_trims, 1);
		if (one == -EBUSY)
			return one;
		err = err ? err : one;
	}
	if (device == UINT32_MAX && !err)
		err = cm_pinned_flush(cache, TRIM_LIMIT_NS, bytes);
	return err;
}

int cm_cache_trim(struct cm_cache *cache, uint32_t device, uint64_t *ret_bytes)
{
	uint64_t bytes = 0;
	int err;

	if (!cache->ops->gate_enter())
		return -EBUSY;
	err = flush(cache, device, &bytes);
	if (err != -EBUSY)
		cache->ops->gate_leave();
	cm_check_after(cache);
	if (err && !bytes)
		return err;
	if (ret_bytes)
		*ret_bytes = bytes;
	return 0;
}

uint64_t cm_cache_make_host_room(struct cm_cache *cache, uint64_t ctx)
{
	uint64_t bytes = 0;

	if (!cache->ops->gate_enter())
		return 0;
	if (cm_pinned_flush(cache, CM_PATIENCE_NS, &bytes) != -EBUSY)
		cache->ops->gate_leave();
	bytes += cm_cache_make_room(cache, ctx);
	cm_check_after(cache);
	return bytes;
}

/* Whole pages, and few at once, so that the time limit is met. */
static uint64_t pages_for(uint64_t bytes)
{
	const uint64_t most = 64 * CM_PAGED_PAGE;

	return bytes < most ? (bytes + CM_PAGED_PAGE - 1) / CM_PAGED_PAGE * CM_PAGED_PAGE : most;
}

/* The reclaim lock is held. -EBUSY: outside of the gate. */
static int give_idle(struct cm_device *device, uint64_t wanted, uint64_t limit_ns,
		     uint64_t *ret_bytes)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	const uint64_t end = ops->now_ns() + limit_ns;
	uint64_t bytes = 0, pass;
	struct cm_device *each;
	int err;

	/* An old driver can only be waited for without a limit, and cuMemFree waits too. */
	if (!cm_shards_have_cached(device->first) || !cm_epoch_can_ask(device->cache))
		return 0;
	err = cm_epoch_quiesces(device, limit_ns / 4);
	if (err)
		return err == -EBUSY ? err : 0;
	if (!cm_epoch_wait_device(device, limit_ns / 4))
		return -EBUSY;
	for (each = device->first; each; each = cm_device_next_shard(each))
		for (pass = 1; bytes < wanted && pass && ops->now_ns() < end; bytes += pass)
			pass = cm_release_idlest(each, UINT64_MAX);
	for (pass = 1; bytes < wanted && pass && ops->now_ns() < end; bytes += pass)
		pass = cm_paged_release_idlest(device, pages_for(wanted - bytes));
	*ret_bytes = bytes;
	return 0;
}

int cm_cache_give_back(struct cm_cache *cache, uint32_t row, uint64_t wanted, uint64_t limit_ns,
		       uint64_t *ret_bytes)
{
	struct cm_device *device = cm_cache_device(cache, row);
	int err;

	*ret_bytes = 0;
	if (!device)
		return -ENODEV;
	if (!cache->ops->gate_enter())
		return -EBUSY;
	/* Does not wait for the lock: its holder may be waiting for the process that asks. */
	if (!cm_lock_try(&device->first->reclaim_lock)) {
		cache->ops->gate_leave();
		return -EBUSY;
	}
	err = give_idle(device, wanted, limit_ns, ret_bytes);
	cm_lock_release(&device->first->reclaim_lock);
	if (err)
		return err;
	cache->ops->gate_leave();
	cm_device_count(device, CM_SCALAR_peer_gives, *ret_bytes != 0);
	cm_device_count(device, CM_SCALAR_peer_bytes_given, (int64_t)*ret_bytes);
	cm_check_after(cache);
	return 0;
}

/* How long to wait for memory that cannot be counted now. For a suspended context, no longer than
 * work may take: destroying it waits for its work. */
static uint64_t wait_for_look(struct cm_device *device)
{
	if (cm_release_has_pending(device) ||
	    atomic_load_explicit(&device->giving_pages, memory_order_acquire))
		return CM_STUCK_NS;
	return cm_release_has_suspended(device) ? CM_PATIENCE_NS : 0;
}

struct cm_info_snapshot cm_cache_info_begin(const struct cm_cache *cache)
{
	return (struct cm_info_snapshot){.returns = cm_cache_returns(cache),
					 .begun_ns = cache->ops->now_ns(),
					 .backoff_ns = CM_GATE_BACKOFF_NS};
}

bool cm_cache_info_must_retry(struct cm_cache *cache, uint64_t ctx, struct cm_info_snapshot *look)
{
	const struct cm_heap *heap = cm_cache_find_heap(cache, ctx);
	const uint64_t wait_ns = heap ? wait_for_look(heap->device) : 0;
	const uint64_t returns = cm_cache_returns(cache);

	/* In this order: memory that is no longer on its way has been counted. */
	if (!heap || (!wait_ns && returns == look->returns))
		return false;
	if (wait_ns ? cache->ops->now_ns() - look->begun_ns >= wait_ns : ++look->looks == LOOKS)
		return false;
	if (wait_ns)
		cm_ops_backoff(cache->ops, &look->backoff_ns, CM_GATE_BACKOFF_MAX_NS);
	look->returns = cm_cache_returns(cache);
	return true;
}
