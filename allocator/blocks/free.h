/* SPDX-License-Identifier: MIT */
/*
 * Frees blocks: a block that the program frees waits in the open epoch. When the epoch is ready,
 * the block merges with adjacent free blocks and enters the bins; or it enters them as it is, and
 * merges when nothing fits (`merges_late` of the heap). What every free does is inline.
 *
 * No function calls the driver. For *_locked the caller holds the device's lock.
 */
#ifndef CM_ALLOCATOR_BLOCKS_FREE_H
#define CM_ALLOCATOR_BLOCKS_FREE_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"
#include "stats/counters.h"

/* What was freed, and what remains to be done for it without the lock. */
struct cm_freed {
	struct cm_heap *heap;         /* NULL: nothing */
	uint32_t unreclaimed_segment; /* its segment, if wholly free and not recycled; or 0 */
};

/* A block that need not wait becomes FREE. */
void cm_free_retire_at_once_locked(struct cm_heap *heap, uint32_t index, uint64_t tick);

/* For cm_heap_pending_bytes. */
CM_ALWAYS_INLINE void cm_heap_set_pending_bytes(struct cm_heap *heap, uint64_t bytes)
{
	__atomic_store_n(&heap->row->pending_bytes, bytes, __ATOMIC_RELAXED);
}

CM_ALWAYS_INLINE void cm_free_join_epoch(struct cm_heap *heap, const struct cm_device *device,
					 struct cm_block *block, uint32_t index, uint64_t size,
					 uint32_t self, uint64_t event)
{
	struct cm_heap_row *row = heap->row;
	struct cm_batch *open = &heap->epochs.open;

	block->state = CM_BLOCK_PENDING; /* is_free says so already */
	block->freed = event;
	block->link_next = open->list.first;
	open->list.first = index;
	open->blocks++;
	open->bytes += size;
	open->work = cm_device_work(device);
	open->thread = self;
	row->pending_blocks++;
	__atomic_store_n(&row->pending_bytes, row->pending_bytes + size, __ATOMIC_RELAXED);
}

/* Whether enough was freed since the last event to be worth one before more work is submitted. */
CM_ALWAYS_INLINE void cm_free_want_close(struct cm_cache *cache, const struct cm_device *device,
					 const struct cm_heap *heap)
{
	if (CM_UNLIKELY(heap->epochs.open.bytes >= device->batch_bytes &&
			!atomic_load_explicit(&cache->wants_close, memory_order_relaxed) &&
			heap->can & CM_CAN_CTX_EVENTS))
		atomic_store_explicit(&cache->wants_close, true, memory_order_relaxed);
}

/* Frees a block in use: it waits in the open epoch, or is FREE at once. `self` is the thread's id.
 * `usual`: the policy and what is recorded are the defaults. */
CM_ALWAYS_INLINE void cm_free_block(struct cm_heap *heap, struct cm_device *device, uint32_t self,
				    struct cm_block *block, uint32_t index, enum cm_pool pool,
				    bool waits, bool usual)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device_row *row = device->row;
	const uint64_t size = block->size;
	const uint64_t tick = usual ? cm_tick() : cm_cache_tick(cache);
	uint64_t event;
	const uint32_t stack = usual ? block->stack : cm_block_free_stack(block);

	assert(cm_lock_is_held(&device->lock));
	heap->live_bytes -= size;
	block->free_stack = stack;
	cm_counters_begin(row);
	cm_counters_free(row, pool, (int64_t)size);
	if (!usual && CM_UNLIKELY(size >= cache->policy.max_split_size))
		cm_stat4_lower(&row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], 1);
	event = cm_ring_add(&device->ring, &row->event_next, CM_ACTION_FREE_REQUESTED, pool,
			    heap->index,
			    (struct cm_event_origin){self, stack, cm_thread.annotation}, tick,
			    block->addr, block->requested);
	if (waits)
		cm_free_join_epoch(heap, device, block, index, size, self, event);
	else
		cm_free_retire_at_once_locked(heap, index, tick);
	cm_counters_end(row);
}

/*
 * Frees the block in use that starts at the address, if it is of that heap and nothing about it or
 * the heap is unusual: it becomes PENDING. Takes the device's lock, as the thread `self`. False:
 * nothing was done.
 */
CM_ALWAYS_INLINE bool cm_free_usual(struct cm_heap *heap, uint32_t self, uint64_t addr)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device *device = heap->device;
	const struct cm_segment *segment;
	struct cm_block *block;
	uint32_t index;
	bool usual;

	cm_lock_acquire_as(&device->lock, self);
	index = cm_page_map_find_recent(&cache->pages, &device->recent, device->index, addr);
	usual = index;
	if (CM_LIKELY(usual)) {
		block = &cache->pages.block[index]; /* as above, so it is read once */
		segment = &cache->segment[block->segment];
		usual = segment->heap == heap->index && cm_heap_recycles(heap, segment);
		if (CM_LIKELY(usual)) {
			cm_free_block(heap, device, self, block, index, cm_segment_pool(segment),
				      true, true);
			cm_free_want_close(cache, device, heap);
		}
	}
	cm_lock_release_as(&device->lock, self);
	return usual;
}

/*
 * Frees the block in use that starts at the address, if there is one; takes the device's lock. It
 * becomes PENDING and joins the open epoch; or FREE at once, if its segment is DIRECT, or is not
 * recycled and the driver will wait for all work that can reach it when it frees the segment.
 */
struct cm_freed cm_device_free(struct cm_device *device, uint64_t addr);

/* The same for a block in use. True: it became FREE at once. */
bool cm_heap_free_locked(struct cm_heap *heap, uint32_t block);

/*
 * CM_RETIRE_SLICE blocks of an epoch become FREE and enter the bins, in some 10 us. False: more are
 * left, so call it again. Other threads may take the lock in between.
 */
#define CM_RETIRE_SLICE 64u
CM_NODISCARD bool cm_heap_retire_locked(struct cm_heap *heap, struct cm_batch *epoch);

/*
 * Merges free blocks of the small pool that have less than `size` bytes with their free neighbours,
 * the largest first, until one has `size` bytes or `looks` blocks were read: CM_MERGE_LOOKS take
 * some 20 us. False: none has.
 */
#define CM_MERGE_LOOKS 1024u
bool cm_heap_merge_locked(struct cm_heap *heap, uint64_t size, uint32_t looks);

/* Merges all of them. False: `looks` blocks were read before the end. */
bool cm_heap_merge_all_locked(struct cm_heap *heap, uint32_t looks);

#endif
