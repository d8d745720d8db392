/* SPDX-License-Identifier: MIT */
/*
 * When freed pinned memory is ready again, and what becomes of it when its context is destroyed.
 */
#include <assert.h>

#include "allocator/base/gate.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/state.h"

bool cm_pinned_close_event_locked(struct cm_cache *cache)
{
	struct cm_batch_ring *ring = &cache->pinned.batches;
	struct cm_batch *batch;

	if (!cm_fence_is_possible(cache) || !cm_batch_ring_detach_event_locked(ring, false))
		return false;
	batch = cm_batch_newest(ring);
	batch->recorded = cm_fence_record_event_locked(cache, NULL, &batch->fence);
	return true;
}

void cm_pinned_close_worthy_event_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;

	if (CM_WITH_LOCK(&pinned->lock, cm_pinned_is_worth_closing_locked(pinned)))
		(void)cm_pinned_close_event_locked(cache);
}

bool cm_pinned_poll_event_locked(struct cm_cache *cache)
{
	return cm_batch_ring_poll_event_locked(&cache->pinned.batches);
}

bool cm_pinned_synchronize_event_locked(struct cm_cache *cache)
{
	struct cm_batch_ring *ring = &cache->pinned.batches;

	(void)cm_batch_ring_detach_event_locked(ring, false);
	if (!cm_fence_synchronize_event_locked(cache, NULL))
		return false;
	cm_batch_ring_retire_event_locked(ring, ring->open.number);
	return true;
}

static bool is_of(const struct cm_cache *cache, uint32_t block, const struct cm_heap *heap)
{
	return cache->segment[cache->block[block].segment].heap == heap->index;
}

void cm_pinned_forget_event_locked(struct cm_cache *cache, const struct cm_heap *gone)
{
	struct cm_pinned *pinned = &cache->pinned;
	struct cm_ptr_map *map = &pinned->map;
	uint64_t i, addr;
	uint32_t index;

	assert(cm_lock_is_held(&cache->event_lock));
	cm_batch_ring_forget_event_locked(&pinned->batches, gone);
	cm_lock_acquire(&pinned->lock);
	for (i = 0; i < cm_ptr_map_places(map); i++) {
		index = cm_ptr_map_at(map, i, &addr);
		if (index && is_of(cache, index, gone))
			(void)cm_pinned_remove_locked(cache, index);
	}
	cm_lock_release(&pinned->lock);
}

uint64_t cm_pinned_pending(struct cm_cache *cache)
{
	const struct cm_host_row *row = cache->pinned.row;

	return (uint64_t)CM_WITH_LOCK(&cache->pinned.lock,
				      row->active_bytes.current - row->allocated_bytes.current);
}

/* One poll: whether all that was closed is ready. */
static bool is_all_ready(struct cm_cache *cache)
{
	bool ready;

	cm_lock_acquire(&cache->event_lock);
	(void)cm_pinned_poll_event_locked(cache);
	ready = cm_batch_ring_is_empty(&cache->pinned.batches);
	cm_lock_release(&cache->event_lock);
	return ready;
}

bool cm_pinned_wait(struct cm_cache *cache, uint64_t limit_ns)
{
	const struct cm_driver_ops *ops = cache->ops;
	uint64_t start, backoff = CM_GATE_BACKOFF_NS;

	if (!cm_pinned_pending(cache))
		return true;
	start = ops->now_ns();
	cm_lock_acquire(&cache->event_lock);
	if (!cm_fence_is_possible(cache))
		(void)cm_pinned_synchronize_event_locked(cache);
	else
		(void)cm_pinned_close_event_locked(cache);
	cm_lock_release(&cache->event_lock);
	while (!is_all_ready(cache) && ops->now_ns() - start < limit_ns)
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}
