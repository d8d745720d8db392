/* SPDX-License-Identifier: MIT */
/*
 * When freed pinned memory is ready again, and what becomes of it when its context goes.
 */
#include <assert.h>

#include "allocator/base/gate.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/state.h"

static struct cm_pinned_batch *closed(struct cm_pinned *pinned, uint64_t number)
{
	return &pinned->closed[number & (CM_BATCHES_MAX - 1)];
}

/* Moves the open batch behind the closed ones, without a fence as yet. */
static bool detach(struct cm_pinned *pinned)
{
	uint64_t number;
	bool moved;

	cm_lock_acquire(&pinned->lock);
	number = pinned->open.number;
	moved = pinned->open.blocks.first && number - pinned->oldest < CM_BATCHES_MAX;
	if (moved) {
		*closed(pinned, number) = pinned->open;
		pinned->open = (struct cm_pinned_batch){.number = number + 1};
	}
	cm_lock_release(&pinned->lock);
	return moved;
}

/* A fence that could not be recorded is tried again: a later one captures no less. Pinned memory is
 * no device's: the first one counts the questions. */
static bool is_complete(struct cm_cache *cache, uint64_t number)
{
	struct cm_pinned_batch *batch = closed(&cache->pinned, number);

	if (!batch->recorded)
		batch->recorded = cm_fence_record_event_locked(cache, &batch->fence);
	return batch->recorded && !cache->ending &&
	       cm_fence_is_complete_event_locked(&batch->fence, cache->device[0]);
}

/* Everything up to the closed batch `last` is ready. */
static void retire_up_to(struct cm_cache *cache, uint64_t last)
{
	struct cm_pinned *pinned = &cache->pinned;

	while (pinned->oldest <= last) {
		struct cm_pinned_batch *batch = closed(pinned, pinned->oldest);

		cm_fence_fini_event_locked(&batch->fence);
		cm_lock_acquire(&pinned->lock);
		cm_pinned_retire_locked(cache, batch);
		pinned->oldest++;
		cm_lock_release(&pinned->lock);
	}
}

bool cm_pinned_close_event_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	struct cm_pinned_batch *batch;

	assert(cm_lock_is_held(&cache->turn));
	if (!cm_fence_is_possible(cache) || !detach(pinned))
		return false;
	batch = closed(pinned, pinned->open.number - 1);
	batch->recorded = cm_fence_record_event_locked(cache, &batch->fence);
	return true;
}

void cm_pinned_close_worthy_event_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	bool worthy;

	cm_lock_acquire(&pinned->lock);
	worthy = cm_pinned_is_worth_closing_locked(pinned);
	cm_lock_release(&pinned->lock);
	if (worthy)
		(void)cm_pinned_close_event_locked(cache);
}

/* The newest first, since its completion is that of all; then the oldest, upwards. */
bool cm_pinned_poll_event_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	uint64_t before = pinned->oldest, end = pinned->open.number;

	assert(cm_lock_is_held(&cache->turn));
	if (before == end)
		return false;
	if (is_complete(cache, end - 1)) {
		retire_up_to(cache, end - 1);
		return true;
	}
	while (pinned->oldest < end - 1 && is_complete(cache, pinned->oldest))
		retire_up_to(cache, pinned->oldest);
	return pinned->oldest != before;
}

bool cm_pinned_synchronize_event_locked(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	uint64_t end;

	assert(cm_lock_is_held(&cache->turn));
	(void)detach(pinned);
	end = pinned->open.number;
	if (!cm_fence_synchronize_event_locked(cache))
		return false;
	if (pinned->oldest != end)
		retire_up_to(cache, end - 1);
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
	uint64_t number, i, addr;
	uint32_t index;

	assert(cm_lock_is_held(&cache->turn));
	for (number = pinned->oldest; number < pinned->open.number; number++)
		cm_fence_forget_event_locked(&closed(pinned, number)->fence, gone);
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
	int64_t bytes;

	cm_lock_acquire(&cache->pinned.lock);
	bytes = row->active_bytes.current - row->allocated_bytes.current;
	cm_lock_release(&cache->pinned.lock);
	return (uint64_t)bytes;
}

/* One look: whether all that was closed is ready. */
static bool is_all_ready(struct cm_cache *cache)
{
	struct cm_pinned *pinned = &cache->pinned;
	bool ready;

	cm_lock_acquire(&cache->turn);
	(void)cm_pinned_poll_event_locked(cache);
	ready = pinned->oldest == pinned->open.number;
	cm_lock_release(&cache->turn);
	return ready;
}

bool cm_pinned_wait(struct cm_cache *cache, uint64_t limit_ns)
{
	const struct cm_driver_ops *ops = cache->ops;
	uint64_t start, backoff = CM_GATE_BACKOFF_NS;

	if (!cm_pinned_pending(cache))
		return true;
	start = ops->now_ns();
	cm_lock_acquire(&cache->turn);
	if (!cm_fence_is_possible(cache))
		(void)cm_pinned_synchronize_event_locked(cache);
	else
		(void)cm_pinned_close_event_locked(cache);
	cm_lock_release(&cache->turn);
	while (!is_all_ready(cache) && ops->now_ns() - start < limit_ns)
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}
