/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/free.h"

#include "allocator/state/pages.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* The right one of two neighbours becomes part of the left one. The block after them still refers
 * to the right one. */
CM_ALWAYS_INLINE void absorb(struct cm_device *device, struct cm_block *table, uint32_t left,
			     uint32_t right)
{
	table[left].size += table[right].size;
	table[left].next = table[right].next;
	cm_rows_give_block(device, right);
}

/* Merges a block with adjacent free blocks, whose rows become unused, after `gone` blocks became
 * part of it. Tells how the number of free blocks and their bytes changed. Returns the row of
 * the whole. */
CM_ALWAYS_INLINE uint32_t join(struct cm_heap *heap, struct cm_bins *bins, bool recycled,
			       uint32_t index, uint32_t gone, int64_t *ret_count,
			       int64_t *ret_bytes)
{
	struct cm_cache *cache = heap->cache;
	struct cm_block *table = cache->block;
	const uint32_t left = table[index].prev, right = table[index].next;

	/* Row 0, which stands for "no neighbour", is never FREE: one check in place of two. */
	if (cache->is_free[right]) {
		if (recycled)
			cm_bins_remove(bins, right);
		*ret_count -= 1;
		*ret_bytes -= (int64_t)table[right].size;
		absorb(heap->device, table, index, right);
		gone++;
	}
	if (cache->is_free[left]) {
		if (recycled)
			cm_bins_remove(bins, left);
		*ret_count -= 1;
		*ret_bytes -= (int64_t)table[left].size;
		absorb(heap->device, table, left, index);
		index = left;
		gone++;
	}
	if (gone) {
		if (table[index].next)
			table[table[index].next].prev = index;
		cache->segment[table[index].segment].blocks -= gone;
	}
	return index;
}

/* The sums over the blocks that became ready, by pool. */
struct retired {
	int64_t blocks;
	int64_t bytes;
	int64_t requested;
};

/* A block is ready; its bytes are counted with those that it merges with. */
CM_ALWAYS_INLINE void note_ready(struct cm_heap *heap, const struct cm_block *block,
				 enum cm_pool pool, uint64_t tick, struct retired *retired)
{
	retired[pool].blocks++;
	retired[pool].requested += (int64_t)block->requested;
	cm_device_note_locked(heap->device, CM_ACTION_FREE_COMPLETED, pool, heap->index,
			      block->free_stack, tick, block->addr, block->requested);
}

/* Whether the next block of the list is adjacent to the first one. */
CM_ALWAYS_INLINE bool begins_run(const struct cm_block *block)
{
	const uint32_t next = block->link_next;

	return (next == block->next || next == block->prev) && next;
}

/*
 * Merges the first blocks of a list, at most `most`, as far as each adjoins those before it, into
 * one ready block: blocks freed in a row often lie in a row, and then enter the bins once. Returns
 * how many they were; *index becomes the row of the merged block, whose link_next is the rest of
 * the list.
 */
static CM_NOINLINE uint32_t merge_run(struct cm_heap *heap, enum cm_pool pool, uint32_t *index,
				      uint32_t most, uint64_t tick, struct retired *retired)
{
	struct cm_block *table = heap->cache->block;
	uint32_t whole = *index, at = whole, next, n = 1;

	note_ready(heap, &table[at], pool, tick, retired);
	for (; n < most && begins_run(&table[whole]); n++) {
		at = table[whole].link_next;
		next = table[at].link_next;
		note_ready(heap, &table[at], pool, tick, retired);
		if (at == table[whole].next) {
			absorb(heap->device, table, whole, at);
		} else {
			absorb(heap->device, table, at, whole);
			whole = at;
		}
		table[whole].link_next = next;
	}
	*index = whole;
	return n;
}

/* The first block of a list becomes FREE, with those behind it that adjoin it, `most` together at
 * most. `list` becomes the rest; returns how many they were. `recycled` and `paged`: what their
 * segment is. */
CM_ALWAYS_INLINE uint32_t retire_of(struct cm_heap *heap, enum cm_pool pool, uint32_t *list,
				    uint32_t most, bool recycled, bool paged, uint64_t tick,
				    struct retired *retired)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device_row *row = heap->device->row;
	uint32_t index = *list, n = 1;
	struct cm_block *block = &cache->block[index];
	int64_t count = 0, bytes = 0;

	if (CM_UNLIKELY(begins_run(block))) {
		n = merge_run(heap, pool, &index, most, tick, retired);
		block = &cache->block[index];
	} else {
		note_ready(heap, block, pool, tick, retired);
	}
	*list = block->link_next;
	retired[pool].bytes += (int64_t)block->size;
	if (paged)
		cm_paged_note_use_locked(heap->paged[pool], block->addr, block->size, tick);
	index = join(heap, &heap->bins[pool], recycled, index, n - 1, &count, &bytes);
	block = &cache->block[index];
	cm_block_set_state(cache, index, CM_BLOCK_FREE);
	block->tick = tick;
	block->age = heap->searches[pool];
	if (recycled)
		cm_bins_insert(&heap->bins[pool], index);
	if (cm_block_is_split(block)) {
		count++;
		bytes += (int64_t)block->size;
	}
	cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT, count);
	cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, bytes);
	return n;
}

static CM_NOINLINE uint32_t retire_unusual(struct cm_heap *heap, uint32_t *list, uint32_t most,
					   const struct cm_segment *segment, uint64_t tick,
					   struct retired *retired)
{
	const bool recycled = cm_heap_recycles(heap, segment);

	if (!recycled)
		cm_device_note_unreclaimed(heap->device);
	return retire_of(heap, cm_segment_pool(segment), list, most, recycled,
			 segment->flags & CM_SEGMENT_PAGED, tick, retired);
}

CM_ALWAYS_INLINE uint32_t retire(struct cm_heap *heap, uint32_t *list, uint32_t most, uint64_t tick,
				 struct retired *retired)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[*list].segment];

	if (CM_UNLIKELY(!cm_heap_recycles(heap, segment) || segment->flags & CM_SEGMENT_PAGED))
		return retire_unusual(heap, list, most, segment, tick, retired);
	return cm_segment_pool(segment) == CM_POOL_SMALL
		       ? retire_of(heap, CM_POOL_SMALL, list, most, true, false, tick, retired)
		       : retire_of(heap, CM_POOL_LARGE, list, most, true, false, tick, retired);
}

static void count_retired(struct cm_device_row *row, const struct retired *retired)
{
	uint32_t pool;

	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
		if (retired[pool].blocks)
			cm_counters_ready(row, (enum cm_pool)pool, retired[pool].blocks,
					  retired[pool].bytes, retired[pool].requested);
}

void cm_free_retire_at_once_locked(struct cm_heap *heap, uint32_t index, uint64_t tick)
{
	const struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];
	struct retired retired[CM_POOL_COUNT] = {0};

	/* The caller returns the segment to the driver, so no other thread has to find it. */
	(void)retire_of(heap, cm_segment_pool(segment), &index, 1, false, false, tick, retired);
	count_retired(heap->device->row, retired);
}

bool cm_heap_free_locked(struct cm_heap *heap, uint32_t index)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];
	/* The driver frees this without waiting for the device, so it waits for its epoch here. */
	const bool waits = cm_heap_recycles(heap, segment) || segment->flags & CM_SEGMENT_PAGED;

	cm_free_block(heap, cm_thread.id, index, cm_segment_pool(segment), waits, false);
	return !waits;
}

struct cm_freed cm_device_free(struct cm_device *device, uint64_t addr)
{
	struct cm_cache *cache = device->cache;
	struct cm_freed freed = {0};
	const struct cm_segment *segment;
	uint32_t index;

	cm_lock_acquire(&device->lock);
	/* A walk if it is not in its cell: that is for blocks of at least 512 bytes, and may be
	 * another one's if the driver served two smaller requests there. */
	index = cm_rows_find_block_locked(device, addr);
	if (cache->block[index].state == CM_BLOCK_LIVE && cache->block[index].addr == addr) {
		segment = &cache->segment[cache->block[index].segment];
		freed.heap = cm_segment_heap(cache, segment);
		if (!cm_heap_free_locked(freed.heap, index))
			cm_free_want_close(freed.heap);
		else if (cm_segment_is_free(cache, segment))
			freed.unreclaimed_segment = (uint32_t)(segment - cache->segment);
	}
	cm_lock_release(&device->lock);
	return freed;
}

/* The last block of an epoch is ready. */
static void end_epoch_locked(struct cm_heap *heap, struct cm_batch *epoch)
{
	cm_counters_count(heap->device->row, CM_SCALAR_epochs_ready, epoch->list.first != 0);
	cm_counters_count(heap->device->row, CM_SCALAR_epochs_closed, epoch->closes);
	cm_counters_count(heap->device->row, CM_SCALAR_barriers, epoch->barriers);
	heap->polled_bytes = 0;
}

bool cm_heap_retire_locked(struct cm_heap *heap, struct cm_batch *epoch)
{
	struct retired retired[CM_POOL_COUNT] = {0};
	struct cm_device_row *row = heap->device->row;
	uint64_t tick = cm_cache_tick(heap->cache);
	uint32_t list = epoch->list.first, pool, n;

	assert(cm_lock_is_held(&heap->device->lock));
	cm_counters_begin(row);
	for (n = 0; list && n < CM_RETIRE_SLICE;)
		n += retire(heap, &list, CM_RETIRE_SLICE - n, tick, retired);
	count_retired(row, retired);
	if (!list)
		end_epoch_locked(heap, epoch);
	cm_counters_end(row);
	epoch->list.first = list;
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
		epoch->bytes -= (uint64_t)retired[pool].bytes;
		cm_heap_set_pending_bytes(heap,
					  heap->row->pending_bytes - (uint64_t)retired[pool].bytes);
	}
	epoch->blocks -= n;
	heap->row->pending_blocks -= n;
	if (!heap->row->pending_blocks)
		heap->pending_sizes = heap->card_fills_up ? ~UINT64_C(0) : 0;
	return !list;
}
