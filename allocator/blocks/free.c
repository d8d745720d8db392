/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/free.h"

#include "allocator/state/pages.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* Joins a block with its free neighbours, whose rows become spare; what it did to the number of
 * free pieces and their bytes. Returns the row of the whole. */
CM_ALWAYS_INLINE uint32_t join(struct cm_heap *heap, struct cm_bins *bins, bool recycled,
			       uint32_t index, int64_t *ret_count, int64_t *ret_bytes)
{
	const uint8_t *is_free = heap->cache->is_free;
	struct cm_block *table = heap->cache->block, *block = &table[index];
	uint32_t left = block->prev, right = block->next, gone = 0;

	/* Row 0, which stands for no neighbour, is never FREE: one question in place of two. */
	if (is_free[right]) {
		if (recycled)
			cm_bins_remove(bins, right);
		*ret_bytes -= (int64_t)table[right].size;
		block->size += table[right].size;
		block->next = table[right].next;
		cm_rows_give_block(heap->device, right);
		gone++;
	}
	if (is_free[left]) {
		if (recycled)
			cm_bins_remove(bins, left);
		*ret_bytes -= (int64_t)table[left].size;
		table[left].size += block->size;
		table[left].next = block->next;
		cm_rows_give_block(heap->device, index);
		index = left;
		block = &table[left];
		gone++;
	}
	if (gone) {
		if (block->next)
			table[block->next].prev = index;
		heap->cache->segment[block->segment].blocks -= gone;
		*ret_count -= gone;
	}
	return index;
}

/* What the blocks that became ready make together, by pool. */
struct retired {
	int64_t blocks;
	int64_t bytes;
	int64_t requested;
};

/* One block becomes FREE. True where its segment is recycled: it goes to the bins, as its free
 * neighbours are there. */
CM_ALWAYS_INLINE bool retire_of(struct cm_heap *heap, uint32_t fit, uint32_t index,
				const struct cm_segment *segment, uint64_t tick,
				struct retired *retired)
{
	const enum cm_pool pool = cm_fit_pool(fit);
	struct cm_cache *cache = heap->cache;
	struct cm_device_row *row = heap->device->row;
	struct cm_block *block = &cache->block[index];
	const bool recycled = cm_heap_recycles(heap, segment);
	int64_t count = 0, bytes = 0;

	retired[pool].blocks++;
	retired[pool].bytes += (int64_t)block->size;
	retired[pool].requested += (int64_t)block->requested;
	cm_device_note_locked(heap->device, CM_ACTION_FREE_COMPLETED, pool, heap->index,
			      block->free_stack, tick, block->addr, block->requested);
	if (CM_UNLIKELY(segment->flags & CM_SEGMENT_PAGED))
		cm_paged_note_use_locked(heap->paged[fit], block->addr, block->size, tick);
	index = join(heap, &heap->bins[fit], recycled, index, &count, &bytes);
	block = &cache->block[index];
	cm_block_set_state(cache, index, CM_BLOCK_FREE);
	block->tick = tick;
	block->age = heap->searches[fit];
	if (recycled)
		cm_bins_insert(&heap->bins[fit], index);
	if (cm_block_is_split(block)) {
		count++;
		bytes += (int64_t)block->size;
	}
	cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT, count);
	cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, bytes);
	return recycled;
}

CM_ALWAYS_INLINE bool retire_block(struct cm_heap *heap, uint32_t index, uint64_t tick,
				   struct retired *retired)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];

	return cm_segment_fit(segment) == CM_FIT_SMALL
		       ? retire_of(heap, CM_FIT_SMALL, index, segment, tick, retired)
		       : retire_of(heap, CM_FIT_LARGE, index, segment, tick, retired);
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
	struct retired retired[CM_POOL_COUNT] = {0};

	(void)retire_block(heap, index, tick, retired);
	count_retired(heap->device->row, retired);
}

bool cm_heap_free_locked(struct cm_heap *heap, uint32_t index)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];
	/* What the driver takes back without waiting for the device waits for it here. */
	const bool waits = cm_heap_recycles(heap, segment) || segment->flags & CM_SEGMENT_PAGED;

	cm_free_block(heap, index, cm_segment_pool(segment), waits);
	return !waits;
}

struct cm_freed cm_device_free(struct cm_device *device, uint64_t addr)
{
	struct cm_cache *cache = device->cache;
	struct cm_freed freed = {0};
	const struct cm_segment *segment;
	uint32_t index;

	cm_lock_acquire(&device->lock);
	index = cm_ptr_map_remove(&device->map, addr);
	if (index) {
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
	uint32_t index = epoch->list.first, next, pool, n;

	assert(cm_lock_is_held(&heap->device->lock));
	cm_counters_begin(row);
	for (n = 0; index && n < CM_RETIRE_SLICE; n++, index = next) {
		next = heap->cache->block[index].link_next;
		if (CM_UNLIKELY(!retire_block(heap, index, tick, retired)))
			cm_device_note_unreclaimed(heap->device);
	}
	count_retired(row, retired);
	if (!index)
		end_epoch_locked(heap, epoch);
	cm_counters_end(row);
	epoch->list.first = index;
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
		epoch->bytes -= (uint64_t)retired[pool].bytes;
		cm_heap_set_pending_bytes(heap,
					  heap->row->pending_bytes - (uint64_t)retired[pool].bytes);
	}
	epoch->blocks -= n;
	heap->row->pending_blocks -= n;
	if (!heap->row->pending_blocks)
		heap->pending_sizes = heap->card_fills_up ? ~UINT64_C(0) : 0;
	return !index;
}
