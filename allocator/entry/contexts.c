/* SPDX-License-Identifier: MIT */
/*
 * Contexts that stop being cached, are suspended, or are destroyed.
 */
#include <assert.h>
#include <errno.h>

#include "allocator/blocks/free.h"
#include "allocator/blocks/heap.h"
#include "allocator/cache.h"
#include "allocator/entry/uncached.h"
#include "allocator/paged/paged.h"
#include "allocator/pinned/pinned.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/limit.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"
#include "stats/counters.h"

/* The first block in use from `index` on, 0: none. */
static uint32_t live_from(const struct cm_cache *cache, uint32_t index)
{
	while (index && cache->block[index].state != CM_BLOCK_LIVE)
		index = cache->block[index].next;
	return index;
}

static void free_segment(struct cm_heap *heap, uint32_t s)
{
	struct cm_cache *cache = heap->cache;
	uint32_t index = live_from(cache, cache->segment[s].first), next;

	for (; index; index = next) {
		next = live_from(cache, cache->block[index].next);
		(void)cm_heap_free_locked(heap, index);
	}
}

/* Pages do not go with their context. */
static void remove_segment(struct cm_heap *heap, uint32_t s)
{
	const struct cm_segment *segment = &heap->cache->segment[s];

	if (!(segment->flags & CM_SEGMENT_PAGED))
		cm_limit_give(heap->device, segment->size);
	cm_heap_remove_segment_locked(heap->cache, s);
}

static void for_each_segment_locked(struct cm_heap *heap,
				    void (*each)(struct cm_heap *heap, uint32_t segment))
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, end = cm_rows_segments(cache);

	for (s = 1; s < end; s++)
		if (cm_segment_is_of(&cache->segment[s], heap->device) &&
		    cm_segment_heap(cache, &cache->segment[s]) == heap)
			each(heap, s);
}

void cm_cache_drain_heap(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);

	if (heap)
		cm_heap_drain(heap);
}

void cm_cache_drain_all(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);

	for (i = 0; i < n; i++)
		cm_heap_drain(atomic_load_explicit(&cache->heap[i], memory_order_relaxed));
}

static void retire_all(struct cm_heap *heap, struct cm_batch_ring *ring)
{
	for (; ring->oldest < ring->open.number; ring->oldest++)
		while (!cm_heap_retire_locked(heap, cm_batch_at(ring, ring->oldest)))
			continue;
	while (!cm_heap_retire_locked(heap, &ring->open))
		continue;
}

void cm_cache_lock_contexts(struct cm_cache *cache) CM_ACQUIRES(cache->event_lock)
{
	cm_lock_acquire(&cache->event_lock);
}

void cm_cache_unlock_contexts(struct cm_cache *cache) CM_RELEASES(cache->event_lock)
{
	cm_lock_release(&cache->event_lock);
}

void cm_cache_context_is_ending(struct cm_cache *cache)
{
	assert(cm_lock_is_held(&cache->event_lock));
	cache->ending++;
}

void cm_cache_context_has_ended(struct cm_cache *cache)
{
	assert(cm_lock_is_held(&cache->event_lock));
	cache->ending--;
}

static void set_suspended(struct cm_heap *heap, bool suspended)
{
	struct cm_cache *cache = heap->cache;
	struct cm_heap *each;
	uint32_t at = 0;

	assert(cm_lock_is_held(&cache->event_lock));
	cm_lock_acquire(&cache->pinned.lock);
	while ((each = cm_heap_next_shard(heap, &at))) {
		cm_lock_acquire(&each->device->lock);
		/* Its memory may be returned again, so this counts as a return; see the place that
		 * forgets it. */
		if (!suspended)
			cm_cache_note_return(cache);
		/* Before the locks are released: a thread that missed the heap's memory in its
		 * count sees that the number has changed. */
		atomic_fetch_add_explicit(&cache->suspensions, suspended, memory_order_relaxed);
		cm_heap_set_suspended_locked(each, suspended);
		cm_lock_release(&each->device->lock);
	}
	cm_lock_release(&cache->pinned.lock);
}

struct cm_heap *cm_cache_suspend_heap(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);

	if (!heap)
		return NULL;
	set_suspended(heap, true);
	cm_epoch_suspend_event_locked(cache, heap);
	return heap;
}

void cm_cache_resume_heap(struct cm_heap *heap)
{
	struct cm_heap *each;
	uint32_t at = 0;

	set_suspended(heap, false);
	while ((each = cm_heap_next_shard(heap, &at)))
		cm_device_note_unreclaimed(each->device);
}

int cm_cache_mem_info(struct cm_cache *cache, uint64_t ctx, uint64_t *ret_free, uint64_t *ret_total)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);
	int err;

	/* Waits, so it precedes the gate. */
	if (!heap || !cm_heap_begin_call(heap, ctx))
		return -ENODEV;
	err = -EBUSY;
	if (cache->ops->gate_enter()) {
		err = cache->ops->mem_info(ctx, ret_free, ret_total);
		cache->ops->gate_leave();
	}
	cm_heap_end_call(heap);
	return err;
}

/* The memory of one shard. */
static void forget_one(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;

	cm_epoch_forget_context_event_locked(cache, heap);
	cm_lock_acquire(&heap->device->lock);
	/* The driver has freed the memory with the context: rows and counters follow, as if all had
	 * been freed and returned. The heap drains, so ready blocks merge and enter no bin. */
	for_each_segment_locked(heap, free_segment);
	retire_all(heap, &heap->ordered);
	retire_all(heap, &heap->epochs);
	cm_paged_forget_locked(heap);
	for_each_segment_locked(heap, remove_segment);
	/* The driver has all of it. The number changes before the state, so a thread that sees the
	 * new state sees the number. */
	cm_cache_note_return(cache);
	cm_heap_end_locked(heap);
	atomic_fetch_add_explicit(&heap->gone, 1, memory_order_relaxed);
	__atomic_store_n(&heap->ctx, 0, __ATOMIC_RELEASE);
	cm_counters_begin(heap->device->row);
	heap->device->row->heaps--;
	cm_counters_end(heap->device->row);
	cm_lock_release(&heap->device->lock);
}

struct cm_heap *cm_cache_forget_heap(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap, *each;
	uint32_t at = 0;

	assert(cm_lock_is_held(&cache->event_lock));
	cm_uncached_forget_context(cache, ctx);
	heap = cm_cache_find_heap(cache, ctx);
	if (!heap)
		return NULL;
	/* First: from here on nothing is entered in it, and no pinned memory either. */
	cm_heap_drain(heap);
	cm_pinned_forget_event_locked(cache, heap);
	/* The first heap is the last one, as the others are found by its context. */
	while ((each = cm_heap_next_shard(heap, &at)))
		if (each != heap)
			forget_one(each);
	forget_one(heap);
	atomic_fetch_sub_explicit(&cache->contexts, 1, memory_order_relaxed);
	return heap;
}
