/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/ordered.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/free.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/fence.h"

static bool retire_locked(struct cm_batch_ring *ring, struct cm_batch *batch)
{
	return cm_heap_retire_locked(ring->heap, batch);
}

void cm_ordered_init(struct cm_heap *heap)
{
	cm_batch_ring_init(&heap->ordered, heap, retire_locked);
}

static uint64_t count(const struct cm_batch_ring *ring)
{
	return ring->open.number - ring->oldest;
}

/* The batch of the last barrier is of no more use once there is another one. */
static bool is_last_spent(struct cm_heap *heap)
{
	return count(&heap->ordered) && !heap->settlers &&
	       !cm_batch_newest(&heap->ordered)->list.first;
}

bool cm_ordered_has_room_event_locked(struct cm_heap *heap)
{
	return count(&heap->ordered) < CM_BATCHES_MAX || is_last_spent(heap);
}

/* Drops the last batch if it is spent, and the oldest ones that a thread has waited for. */
static void drop_spent(struct cm_heap *heap)
{
	struct cm_batch_ring *ring = &heap->ordered;

	if (is_last_spent(heap)) {
		cm_fence_fini_event_locked(&cm_batch_newest(ring)->fence);
		ring->open.number--;
	}
	while (count(ring) && !heap->settlers && !cm_batch_at(ring, ring->oldest)->list.first) {
		cm_fence_fini_event_locked(&cm_batch_at(ring, ring->oldest)->fence);
		ring->oldest++;
	}
}

/* Enters a batch that waits for the fence of an epoch, with the blocks `list`. */
static struct cm_batch *push(struct cm_heap *heap, struct cm_batch *epoch,
			     struct cm_block_list list)
{
	struct cm_batch_ring *ring = &heap->ordered;
	const uint64_t number = ring->open.number++;
	struct cm_batch *batch = cm_batch_newest(ring);

	memset(batch, 0, offsetof(struct cm_batch, fence));
	batch->number = number;
	batch->list = list;
	batch->recorded = true;
	batch->clean = epoch->clean;
	batch->work = epoch->work;
	batch->thread = epoch->thread;
	/* An epoch that a barrier makes ready at once has no time. */
	batch->closed_ns = epoch->closed_ns ? epoch->closed_ns : heap->cache->ops->now_ns();
	cm_fence_move_event_locked(&epoch->fence, &batch->fence);
	return batch;
}

static void append_block(struct cm_cache *cache, struct cm_block_list *list, uint32_t index)
{
	cache->block[index].link_next = 0;
	if (list->last)
		cache->block[list->last].link_next = index;
	else
		list->first = index;
	list->last = index;
}

/* Moves the blocks of NAMED segments from an epoch to `named`. */
static void move_named_locked(struct cm_cache *cache, struct cm_batch *epoch,
			      struct cm_batch *named)
{
	uint32_t index = epoch->list.first, next;
	const struct cm_block *block;

	epoch->list = (struct cm_block_list){0, 0};
	for (; index; index = next) {
		block = &cache->block[index];
		next = block->link_next;
		if (!(cache->segment[block->segment].flags & CM_SEGMENT_NAMED)) {
			append_block(cache, &epoch->list, index);
			continue;
		}
		append_block(cache, &named->list, index);
		named->blocks++;
		named->bytes += block->size;
		epoch->blocks--;
		epoch->bytes -= block->size;
	}
}

/* Each epoch's blocks wait for its own fence, or for a later one if there is no room. */
static void add_with_named(struct cm_heap *heap, uint64_t number)
{
	struct cm_batch *epoch, *batch, named;
	uint64_t n;

	memset(&named, 0, offsetof(struct cm_batch, fence));
	for (n = heap->epochs.oldest; n <= number; n++) {
		epoch = cm_batch_at(&heap->epochs, n);
		cm_lock_acquire(&heap->device->lock);
		move_named_locked(heap->cache, epoch, &named);
		cm_lock_release(&heap->device->lock);
		if (n < number && (!named.list.first || !epoch->recorded ||
				   count(&heap->ordered) + 1 == CM_BATCHES_MAX))
			continue;
		batch = push(heap, epoch, named.list);
		batch->blocks = named.blocks;
		batch->bytes = named.bytes;
		memset(&named, 0, offsetof(struct cm_batch, fence));
	}
}

void cm_ordered_add_event_locked(struct cm_heap *heap, uint64_t number)
{
	assert(cm_lock_is_held(&heap->cache->event_lock));
	drop_spent(heap);
	/* A segment that becomes NAMED later is settled behind this barrier. */
	if (atomic_load_explicit(&heap->cache->has_named, memory_order_relaxed))
		add_with_named(heap, number);
	else
		(void)push(heap, cm_batch_at(&heap->epochs, number), (struct cm_block_list){0, 0});
}

bool cm_ordered_holds_event_locked(const struct cm_heap *heap)
{
	const struct cm_batch_ring *ring = &heap->ordered;
	uint64_t number;

	/* Once set it stays so: without it no batch has ever had blocks. */
	if (!atomic_load_explicit(&heap->cache->has_named, memory_order_relaxed))
		return false;
	for (number = ring->oldest; number < ring->open.number; number++)
		if (ring->closed[number & (CM_BATCHES_MAX - 1)].list.first)
			return true;
	return false;
}

/* If no block waits, nobody asks for the fence of the last barrier. */
bool cm_ordered_poll_event_locked(struct cm_heap *heap)
{
	return cm_ordered_holds_event_locked(heap) &&
	       cm_batch_ring_poll_event_locked(&heap->ordered);
}

/* Begins to wait for the last barrier; its number. */
static uint64_t enter(struct cm_heap *heap)
{
	uint64_t number;

	cm_lock_acquire(&heap->cache->event_lock);
	heap->settlers++;
	number = heap->ordered.open.number - 1;
	cm_lock_release(&heap->cache->event_lock);
	return number;
}

static void leave(struct cm_heap *heap)
{
	cm_lock_acquire(&heap->cache->event_lock);
	heap->settlers--;
	cm_lock_release(&heap->cache->event_lock);
}

static bool is_fence_settled(struct cm_heap *heap, struct cm_fence *fence, bool gated)
{
	if (gated ? cm_fence_is_complete_event_locked(fence, heap->device)
		  : cm_fence_is_complete_ungated_event_locked(fence, heap->device))
		return true;
	if (!fence->broken)
		return false;
	/* Queried in another way, if that is possible; work of a dead context is over. */
	if (gated) {
		(void)cm_fence_synchronize_event_locked(heap->cache, heap->device);
		cm_fence_fini_event_locked(fence);
	}
	return true;
}

/* Whether the barrier of this number was passed. It may be retired, or another context may have the
 * heap. */
static bool is_passed(struct cm_heap *heap, uint64_t number, bool gated)
{
	const struct cm_batch_ring *ring = &heap->ordered;
	bool settled = true;

	cm_lock_acquire(&heap->cache->event_lock);
	if (number >= ring->oldest && number < ring->open.number)
		settled = is_fence_settled(heap, &cm_batch_at(&heap->ordered, number)->fence,
					   gated);
	cm_lock_release(&heap->cache->event_lock);
	return settled;
}

/* Waits for the own context without a limit, as the polls do afterwards for all contexts. */
static void wait_for(struct cm_heap *heap, uint64_t number)
{
	const struct cm_batch_ring *ring = &heap->ordered;
	bool begun;

	cm_lock_acquire(&heap->cache->event_lock);
	begun = number >= ring->oldest && number < ring->open.number &&
		cm_fence_begin_wait_event_locked(&cm_batch_at(&heap->ordered, number)->fence, heap);
	cm_lock_release(&heap->cache->event_lock);
	if (begun)
		(void)cm_fence_wait_ungated(heap); /* the polls decide */
}

void cm_ordered_settle(struct cm_heap *heap)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	const uint64_t number = enter(heap);
	uint64_t backoff = CM_GATE_BACKOFF_NS;
	bool gated, settled;

	wait_for(heap, number);
	do {
		gated = ops->gate_enter();
		settled = is_passed(heap, number, gated);
		if (gated)
			ops->gate_leave();
		if (!settled)
			cm_ops_backoff(ops, &backoff, CM_GATE_BACKOFF_MAX_NS);
	} while (!settled);
	leave(heap);
}
