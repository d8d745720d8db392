/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/free.h"

#include "allocator/state/pages.h"
#include "allocator/state/reached.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
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

/* Blocks of a batch that become ready at one moment, and their sums by pool. */
struct slice {
	uint64_t tick;
	uint32_t left; /* as many more may */
	struct sums {
		int64_t bytes;
		int64_t requested;
		/* What becomes ready is inactive_split, less these: blocks that are part of others
		 * now, and all of segments that are wholly free. */
		int64_t joined;
		int64_t idle_bytes;
	} sums[CM_POOL_COUNT];
	/* Of those that did, in the large pool. Not beside `left`: what is stored as one and loaded
	 * as part of both waits for the cache. */
	uint32_t large;
};

/* `gone` blocks became part of the block. */
CM_ALWAYS_INLINE void note_merged(struct cm_block *table, struct cm_segment *segment,
				  uint32_t index, uint32_t gone)
{
	if (table[index].next)
		table[table[index].next].prev = index;
	segment->blocks -= gone;
}

/* Merges a block with adjacent free blocks, whose rows become unused. Returns the row of the
 * whole. */
CM_ALWAYS_INLINE uint32_t join(struct cm_heap *heap, struct cm_bins *bins,
			       struct cm_segment *segment, bool recycled, uint32_t index,
			       struct sums *sums)
{
	struct cm_cache *cache = heap->cache;
	struct cm_block *table = bins->block;
	const uint32_t left = table[index].prev, right = table[index].next;
	uint32_t gone = 0;

	/* Row 0, which stands for "no neighbour", is never FREE: one check in place of two. */
	if (cache->is_free[right]) {
		if (recycled)
			cm_bins_remove(bins, right);
		absorb(heap->device, table, index, right);
		gone++;
	}
	if (cache->is_free[left]) {
		if (recycled)
			cm_bins_remove(bins, left);
		absorb(heap->device, table, left, index);
		index = left;
		gone++;
	}
	if (gone) {
		note_merged(table, segment, index, gone);
		sums->joined += gone;
	}
	return index;
}

/* The bytes of ready blocks are counted once they have merged. */
CM_ALWAYS_INLINE void count_ready(struct slice *slice, enum cm_pool pool, uint32_t blocks,
				  int64_t requested)
{
	slice->left -= blocks;
	if (pool == CM_POOL_LARGE)
		slice->large += blocks;
	slice->sums[pool].requested += requested;
}

/* Whether the next block of the list is adjacent to the first one. */
CM_ALWAYS_INLINE bool begins_run(const struct cm_block *block)
{
	const uint32_t next = block->link_next;

	return (next == block->next || next == block->prev) && next;
}

/*
 * Merges the first blocks of a list as far as each adjoins those before it into one ready block:
 * blocks freed in a row often lie in a row, and then enter the bins once. Returns the row of that
 * block, whose link_next is the rest of the list.
 */
static CM_NOINLINE uint32_t merge_run(struct cm_heap *heap, enum cm_pool pool,
				      struct cm_segment *segment, uint32_t first,
				      struct slice *slice)
{
	struct cm_block *table = heap->cache->block;
	const uint32_t most = slice->left;
	int64_t requested = (int64_t)table[first].requested;
	uint32_t before = table[first].prev, behind = table[first].next, next, gone;
	uint32_t list = table[first].link_next, whole = first, n = 1;
	uint64_t size = table[first].size;

	for (; n < most && list && (list == before || list == behind); n++) {
		next = list;
		list = table[next].link_next;
		size += table[next].size;
		requested += (int64_t)table[next].requested;
		if (next == before) {
			before = table[next].prev;
			gone = whole;
			whole = next;
		} else {
			behind = table[next].next;
			gone = next;
		}
		cm_rows_give_block(heap->device, gone);
	}
	table[whole].size = size;
	table[whole].next = behind;
	table[whole].link_next = list;
	note_merged(table, segment, whole, n - 1);
	count_ready(slice, pool, n, requested);
	slice->sums[pool].joined += n - 1;
	segment->busy -= n - 1;
	return whole;
}

/* A block of the segment is not in use any more. */
CM_ALWAYS_INLINE void leave(struct cm_block *table, struct cm_segment *segment, struct sums *sums,
			    uint64_t tick)
{
	if (CM_LIKELY(--segment->busy))
		return;
	sums->joined += segment->blocks;
	sums->idle_bytes += (int64_t)segment->size;
	/* Since then the segment is idle, although this block may have been free before. */
	table[segment->first].tick = tick;
}

/* The first block of a list becomes FREE, with those behind it that adjoin it. Returns the rest of
 * the list. `recycled` and `paged`: what their segment is. */
CM_ALWAYS_INLINE uint32_t retire_of(struct cm_heap *heap, enum cm_pool pool,
				    struct cm_segment *segment, uint32_t index, bool recycled,
				    bool paged, struct slice *slice)
{
	struct cm_bins *bins = &heap->bins[pool];
	struct cm_block *table = bins->block, *block = &table[index];
	struct sums *sums = &slice->sums[pool];
	uint32_t rest;

	if (CM_UNLIKELY(begins_run(block))) {
		index = merge_run(heap, pool, segment, index, slice);
		block = &table[index];
	} else {
		count_ready(slice, pool, 1, (int64_t)block->requested);
	}
	rest = block->link_next;
	sums->bytes += (int64_t)block->size;
	if (paged)
		cm_paged_note_use_locked(heap->device->paged[pool], block->addr, block->size,
					 slice->tick);
	index = join(heap, bins, segment, recycled, index, sums);
	block = &table[index];
	cm_block_set_state(heap->cache, block, index, CM_BLOCK_FREE);
	block->tick = slice->tick;
	block->age = heap->searches[pool];
	if (recycled)
		cm_bins_insert(bins, index);
	leave(table, segment, sums, slice->tick);
	return rest;
}

/* The same for a block of the small pool that merges late. */
CM_ALWAYS_INLINE uint32_t retire_late(struct cm_heap *heap, struct cm_segment *segment,
				      uint32_t index, struct slice *slice)
{
	struct cm_bins *bins = &heap->bins[CM_POOL_SMALL];
	struct cm_block *table = bins->block, *block = &table[index];
	struct sums *sums = &slice->sums[CM_POOL_SMALL];
	const uint32_t rest = block->link_next;

	/* It has a bin of its size. */
	if (block->size > CM_SMALL_SEGMENT)
		__builtin_unreachable();
	count_ready(slice, CM_POOL_SMALL, 1, (int64_t)block->requested);
	sums->bytes += (int64_t)block->size;
	cm_block_set_state(heap->cache, block, index, CM_BLOCK_FREE);
	block->tick = slice->tick;
	cm_bins_push(bins, index);
	leave(table, segment, sums, slice->tick);
	return rest;
}

static CM_NOINLINE uint32_t retire_unusual(struct cm_heap *heap, uint32_t index,
					   struct cm_segment *segment, struct slice *slice)
{
	const bool recycled = cm_heap_recycles(heap, segment);

	if (!recycled)
		cm_device_note_unreclaimed(heap->device);
	return retire_of(heap, cm_segment_pool(segment), segment, index, recycled,
			 segment->flags & CM_SEGMENT_PAGED, slice);
}

/* `unusual`: flags of segments whose blocks need more than the others. `late`: CM_SEGMENT_SMALL if
 * the blocks of other segments that have it merge late, else UINT32_MAX. */
CM_ALWAYS_INLINE uint32_t retire(struct cm_heap *heap, uint32_t index, uint32_t unusual,
				 uint32_t late, struct slice *slice)
{
	/* The table of both pools; the bin needs it from here. */
	const struct cm_block *table = heap->bins[CM_POOL_SMALL].block;
	struct cm_segment *segment = &heap->cache->segment[table[index].segment];

	if ((segment->flags & (unusual | CM_SEGMENT_SMALL)) == late)
		return retire_late(heap, segment, index, slice);
	if (CM_UNLIKELY(segment->flags & unusual))
		return retire_unusual(heap, index, segment, slice);
	return cm_segment_pool(segment) == CM_POOL_LARGE
		       ? retire_of(heap, CM_POOL_LARGE, segment, index, true, false, slice)
		       : retire_of(heap, CM_POOL_SMALL, segment, index, true, false, slice);
}

/* Blocks of a pool. Returns what cm_counters_change does. */
static bool count_retired_of(struct cm_device_row *row, enum cm_pool pool, int64_t blocks,
			     const struct sums *sums)
{
	bool passed;

	if (!blocks)
		return false;
	cm_counters_ready(row, pool, blocks, sums->bytes, sums->requested);
	passed = cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT, blocks - sums->joined);
	passed |= cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES,
				     sums->bytes - sums->idle_bytes);
	return passed;
}

/* `blocks` of both pools. */
static void count_retired(struct cm_device *device, const struct slice *slice, uint32_t blocks)
{
	bool passed;

	passed = count_retired_of(device->row, CM_POOL_SMALL, blocks - slice->large,
				  &slice->sums[CM_POOL_SMALL]);
	passed |= count_retired_of(device->row, CM_POOL_LARGE, slice->large,
				   &slice->sums[CM_POOL_LARGE]);
	if (CM_UNLIKELY(passed))
		cm_shards_trade_locked(device);
}

/* An event for a block alone. */
static void note_completed(struct cm_heap *heap, const struct cm_block *block, uint64_t tick)
{
	const struct cm_segment *segment = &heap->cache->segment[block->segment];

	cm_device_note_locked(heap->device, CM_ACTION_FREE_COMPLETED, cm_segment_pool(segment),
			      heap->index, block->free_stack, tick, block->addr, block->requested);
}

/* Events for the blocks of the next slice, each alone. */
static CM_NOINLINE void note_each(struct cm_heap *heap, uint32_t list, uint64_t tick)
{
	const struct cm_block *table = heap->cache->block;
	uint32_t n;

	for (n = 0; n < CM_RETIRE_SLICE && list; n++, list = table[list].link_next)
		note_completed(heap, &table[list], tick);
}

/*
 * One event for all blocks of a slice. They are those with numbers above `rest`, as a heap's epochs
 * become ready in their order, and the blocks of an epoch from the newest on.
 */
static void note_slice(struct cm_heap *heap, uint64_t newest, uint64_t rest, uint64_t tick)
{
	/* Equal: their frees were not recorded. */
	if (newest > rest)
		cm_device_note_locked(heap->device, CM_ACTION_FREES_COMPLETED, CM_POOL_ALL,
				      heap->index, 0, tick, newest, rest);
}

void cm_free_retire_at_once_locked(struct cm_heap *heap, uint32_t index, uint64_t tick)
{
	const struct cm_cache *cache = heap->cache;
	struct cm_segment *segment = &cache->segment[cache->block[index].segment];
	struct slice slice = {.tick = tick, .left = 1};

	note_completed(heap, &cache->block[index], tick);
	/* The caller returns the segment to the driver, so no other thread has to find it. */
	(void)retire_of(heap, cm_segment_pool(segment), segment, index, false, false, &slice);
	count_retired(heap->device, &slice, 1);
}

bool cm_heap_free_locked(struct cm_heap *heap, uint32_t index)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_segment *segment = &cache->segment[cache->block[index].segment];
	/* The driver frees pages without waiting for the device, and everything without waiting for
	 * work of other devices: that waits for its epoch here. What was merely passed on goes
	 * back at once, as natively: no request would look for it later. */
	const bool waits = !(segment->flags & CM_SEGMENT_DIRECT) &&
			   (cm_heap_recycles(heap, segment) || segment->flags & CM_SEGMENT_PAGED ||
			    cm_device_is_reached(heap->device));

	cm_free_block(heap, heap->device, cm_thread.id, &cache->block[index], index,
		      cm_segment_pool(segment), waits, false);
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
			cm_free_want_close(cache, device, freed.heap);
		else if (cm_segment_is_free(segment))
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

/* Merges a block of the small pool with all free blocks beside it; *index is then the row of the
 * whole. Returns how many are part of it now. */
static uint32_t merge_around(struct cm_heap *heap, struct cm_bins *bins, uint32_t *index)
{
	struct cm_cache *cache = heap->cache;
	struct cm_block *table = bins->block;
	struct cm_segment *segment = &cache->segment[table[*index].segment];
	uint32_t whole = *index, gone = 0, right;
	uint64_t tick;

	while (cache->is_free[table[whole].prev])
		whole = table[whole].prev;
	if (!cache->is_free[table[whole].next])
		return 0;
	cm_bins_remove(bins, whole);
	tick = table[whole].tick;
	while (cache->is_free[right = table[whole].next]) {
		cm_bins_remove(bins, right);
		tick = table[right].tick > tick ? table[right].tick : tick;
		absorb(heap->device, table, whole, right);
		gone++;
	}
	note_merged(table, segment, whole, gone);
	table[whole].tick = tick;
	cm_bins_push(bins, whole);
	if (segment->busy)
		cm_counters_lower(heap->device->row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, gone);
	*index = whole;
	return gone;
}

/* The same for the blocks of a bin. True: one has `size` bytes then. */
static bool merge_bin(struct cm_heap *heap, uint32_t bin, uint64_t size, uint32_t *looks)
{
	struct cm_bins *bins = &heap->bins[CM_POOL_SMALL];
	const struct cm_block *table = bins->block;
	uint32_t index, before = 0, gone;

	/* What merges leaves the bin, with the blocks beside it; `before` has none. */
	while (*looks && (index = before ? table[before].link_next : bins->head[bin]) != 0) {
		gone = merge_around(heap, bins, &index);
		*looks -= gone < *looks ? gone + 1 : *looks;
		if (gone && table[index].size >= size)
			return true;
		if (!gone)
			before = index;
	}
	return false;
}

static bool merge_below(struct cm_heap *heap, uint64_t size, uint32_t *looks)
{
	const uint64_t most = size <= CM_SMALL_SEGMENT ? size : CM_SMALL_SEGMENT;
	uint32_t bin = (uint32_t)(most >> CM_GRAIN_SHIFT);
	bool found = false;

	cm_counters_begin(heap->device->row);
	while (!found && *looks && (bin = cm_bins_before(&heap->bins[CM_POOL_SMALL], bin)) != 0)
		found = merge_bin(heap, bin, size, looks);
	cm_counters_end(heap->device->row);
	return found;
}

bool cm_heap_merge_locked(struct cm_heap *heap, uint64_t size, uint32_t looks)
{
	return merge_below(heap, size, &looks);
}

bool cm_heap_merge_all_locked(struct cm_heap *heap, uint32_t looks)
{
	(void)merge_below(heap, UINT64_MAX, &looks);
	return looks;
}

bool cm_heap_retire_locked(struct cm_heap *heap, struct cm_batch *epoch)
{
	struct slice slice = {.tick = cm_cache_tick(heap->cache), .left = CM_RETIRE_SLICE};
	struct cm_device_row *row = heap->device->row;
	const struct cm_block *table = heap->cache->block;
	uint32_t list = epoch->list.first, blocks;
	/* Row 0 is no block and was never freed. */
	const uint64_t newest = table[list].freed;
	/* Blocks of NAMED segments wait longer than others of their epoch. */
	const bool in_order = !atomic_load_explicit(&heap->cache->has_named, memory_order_relaxed);
	/* A segment in use has one flag at least. */
	const uint32_t unusual = cm_heap_drains(heap) ? CM_SEGMENT_USED
						      : CM_SEGMENT_EXPORTED | CM_SEGMENT_DIRECT |
								CM_SEGMENT_PAGED;
	const uint32_t late = heap->merges_late ? CM_SEGMENT_SMALL : UINT32_MAX;
	uint64_t bytes;

	assert(cm_lock_is_held(&heap->device->lock));
	cm_counters_begin(row);
	if (!in_order)
		note_each(heap, list, slice.tick);
	while (list && slice.left)
		list = retire(heap, list, unusual, late, &slice);
	if (in_order)
		note_slice(heap, newest, table[list].freed, slice.tick);
	blocks = CM_RETIRE_SLICE - slice.left;
	count_retired(heap->device, &slice, blocks);
	if (!list)
		end_epoch_locked(heap, epoch);
	cm_counters_end(row);
	bytes = (uint64_t)(slice.sums[CM_POOL_SMALL].bytes + slice.sums[CM_POOL_LARGE].bytes);
	epoch->list.first = list;
	epoch->bytes -= bytes;
	epoch->blocks -= blocks;
	cm_heap_set_pending_bytes(heap, heap->row->pending_bytes - bytes);
	heap->row->pending_blocks -= blocks;
	return !list;
}
