/* SPDX-License-Identifier: MIT */
#include "allocator/paged/runs.h"

#include <errno.h>

#include "allocator/blocks/fragmentation.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

/* How a change alters inactive_split and its bytes. */
struct split_change {
	int64_t pieces;
	int64_t bytes;
};

static void count_split(struct split_change *change, const struct cm_block *block, int64_t sign)
{
	if (block->state != CM_BLOCK_FREE || !cm_block_is_split(block))
		return;
	change->pieces += sign;
	change->bytes += sign * (int64_t)block->size;
}

static void count_mapping(struct cm_heap *heap, enum cm_pool pool, enum cm_action action,
			  uint64_t addr, uint64_t bytes, int64_t segments,
			  const struct split_change *split)
{
	struct cm_device *device = heap->device;
	const bool more = action == CM_ACTION_SEGMENT_MAP;
	const int64_t change = more ? (int64_t)bytes : -(int64_t)bytes;

	cm_counters_begin(device->row);
	cm_counters_change(device->row, pool, CM_STAT_SEGMENT, segments);
	cm_counters_change(device->row, pool, CM_STAT_RESERVED_BYTES, change);
	(void)cm_shards_add_reserved(device, change);
	cm_counters_note_driver_use(device->first->row, change);
	cm_counters_change(device->row, pool, CM_STAT_INACTIVE_SPLIT, split->pieces);
	cm_counters_change(device->row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, split->bytes);
	cm_counters_count(device->row,
			  more ? CM_SCALAR_num_device_alloc : CM_SCALAR_num_device_free, 1);
	cm_device_note_locked(device, action, pool, heap->index, cm_thread.stack,
			      cm_cache_tick(heap->cache), addr, bytes);
	cm_counters_end(device->row);
	cm_fragmentation_note_reserved_locked(heap);
}

static void put_in_bins(struct cm_heap *heap, uint32_t index)
{
	const struct cm_segment *run = &heap->cache->segment[heap->cache->block[index].segment];

	if (cm_segment_is_recycled(heap->cache, run))
		cm_bins_insert(&heap->bins[cm_segment_pool(run)], index);
}

static void take_from_bins(struct cm_heap *heap, uint32_t index)
{
	const struct cm_segment *run = &heap->cache->segment[heap->cache->block[index].segment];

	if (cm_segment_is_recycled(heap->cache, run))
		cm_bins_remove(&heap->bins[cm_segment_pool(run)], index);
}

/* Makes a row, whose bytes and blocks are set, a run of the heap. */
static void fill_run(struct cm_heap *heap, uint32_t s, uint32_t flags, uint32_t stack)
{
	struct cm_segment *run = &heap->cache->segment[s];

	run->context = heap->ctx;
	run->heap = heap->index;
	__atomic_store_n(&run->device, heap->device->index, __ATOMIC_RELAXED);
	run->stack = stack;
	run->tick = cm_cache_tick(heap->cache);
	/* Release: a thread that sees the row in use sees whose it is. */
	__atomic_store_n(&run->flags, flags | CM_SEGMENT_PAGED | CM_SEGMENT_USED, __ATOMIC_RELEASE);
}

/* Returns how many of them are in use or pending. */
static uint32_t give_blocks_to(struct cm_cache *cache, uint32_t first, uint32_t run)
{
	uint32_t busy = 0;

	for (; first; first = cache->block[first].next) {
		cache->block[first].segment = run;
		busy += cache->block[first].state != CM_BLOCK_FREE;
	}
	return busy;
}

/* `last` ends the left run, and the right one begins behind it. The one of fewer blocks goes. */
static uint32_t join_runs(struct cm_heap *heap, uint32_t left, uint32_t right, uint32_t last)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *a = &cache->segment[left], *b = &cache->segment[right];
	const bool keeps_left = a->blocks >= b->blocks;
	struct cm_segment *kept = keeps_left ? a : b;
	const uint32_t blocks = a->blocks + b->blocks, busy = a->busy + b->busy;
	const uint32_t first = a->first, second = b->first;
	const uint64_t addr = a->addr, size = a->size + b->size;
	const uint32_t named = (a->flags | b->flags) & CM_SEGMENT_NAMED;

	(void)give_blocks_to(cache, keeps_left ? second : first, keeps_left ? left : right);
	cache->block[last].next = second;
	cache->block[second].prev = last;
	kept->addr = addr;
	kept->size = size;
	kept->first = first;
	kept->blocks = blocks;
	kept->busy = busy;
	__atomic_fetch_or(&kept->flags, named, __ATOMIC_RELAXED);
	cm_rows_give_segment(cache, keeps_left ? right : left);
	return keeps_left ? left : right;
}

/* Joins the free blocks `a` and, next to it, `b`, both out of the bins. */
static uint32_t join_blocks(struct cm_heap *heap, uint32_t a, uint32_t b)
{
	struct cm_block *block = heap->cache->block;

	block[a].size += block[b].size;
	block[a].next = block[b].next;
	if (block[b].next)
		block[block[b].next].prev = a;
	heap->cache->segment[block[a].segment].blocks--;
	cm_rows_give_block(heap->device, b);
	return a;
}

uint32_t cm_runs_last_block(const struct cm_cache *cache, uint32_t run, uint32_t hint)
{
	const struct cm_block *block = cache->block;
	uint32_t index = hint;

	if (!cm_runs_has_block(cache, run, index))
		index = cache->segment[run].first;
	while (block[index].next)
		index = block[index].next;
	return index;
}

/* A free block beside new memory leaves the bins and the counters of free blocks. */
static void take_neighbour(struct cm_heap *heap, uint32_t index, struct split_change *split)
{
	const struct cm_block *block = &heap->cache->block[index];

	count_split(split, block, -1);
	if (block->state == CM_BLOCK_FREE)
		take_from_bins(heap, index);
}

int cm_runs_add_locked(struct cm_heap *heap, uint32_t flags, uint64_t addr, uint64_t bytes,
		       uint32_t before, uint32_t behind, uint32_t *ret_block)
{
	struct cm_cache *cache = heap->cache;
	uint32_t index = cm_rows_take_block(heap->device);
	uint32_t run = index ? cm_rows_take_segment(cache) : 0;
	struct cm_block *block = &cache->block[index];
	struct split_change split = {0, 0};

	if (!run) {
		if (index)
			cm_rows_give_block(heap->device, index);
		return -ENOSPC;
	}
	*block = (struct cm_block){.segment = run};
	cm_block_set_state(cache, block, index, CM_BLOCK_FREE);
	cache->segment[run].addr = block->addr = addr;
	cache->segment[run].size = block->size = bytes;
	cache->segment[run].first = index;
	cache->segment[run].blocks = 1;
	cache->segment[run].busy = 0;
	fill_run(heap, run, flags, cm_thread.stack);
	block->age = heap->searches[flags & CM_SEGMENT_SMALL ? CM_POOL_SMALL : CM_POOL_LARGE];
	block->tick = cache->segment[run].tick;
	if (before) {
		take_neighbour(heap, before, &split);
		run = join_runs(heap, cache->block[before].segment, run, before);
		if (cache->block[before].state == CM_BLOCK_FREE)
			index = join_blocks(heap, before, index);
	}
	if (behind) {
		take_neighbour(heap, behind, &split);
		run = join_runs(heap, run, cache->block[behind].segment, index);
		if (cache->block[behind].state == CM_BLOCK_FREE)
			index = join_blocks(heap, index, behind);
	}
	put_in_bins(heap, index);
	count_split(&split, &cache->block[index], 1);
	count_mapping(heap, cm_segment_pool(&cache->segment[run]), CM_ACTION_SEGMENT_MAP, addr,
		      bytes, 1 - (before != 0) - (behind != 0), &split);
	*ret_block = index;
	return 0;
}

/* Which side of the removed pages has fewer blocks, and how many. `before` and `behind` are the
 * blocks next to it. */
static bool is_left_smaller(const struct cm_cache *cache, uint32_t before, uint32_t behind,
			    uint32_t *ret_blocks)
{
	uint32_t n = 0;

	while (before && behind) {
		before = cache->block[before].prev;
		behind = cache->block[behind].next;
		n++;
	}
	*ret_blocks = n;
	return !before;
}

/* Takes the rows that the removal needs, all or none. */
static int take_run_rows(struct cm_heap *heap, bool wants_block, bool wants_run,
			 uint32_t *ret_block, uint32_t *ret_run)
{
	*ret_block = wants_block ? cm_rows_take_block(heap->device) : 0;
	if (wants_block && !*ret_block)
		return -ENOSPC;
	*ret_run = wants_run ? cm_rows_take_segment(heap->cache) : 0;
	if (!wants_run || *ret_run)
		return 0;
	if (*ret_block)
		cm_rows_give_block(heap->device, *ret_block);
	return -ENOSPC;
}

/* Both sides of the removed pages become runs: the smaller one gets the new row. */
static void part(struct cm_heap *heap, uint32_t run, uint32_t other, uint32_t last, uint32_t first,
		 uint64_t addr, uint64_t end)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *kept = &cache->segment[run], *made = &cache->segment[other];
	const uint64_t run_end = kept->addr + kept->size;
	const uint32_t left_first = kept->first;
	uint32_t n;
	bool left_moves = is_left_smaller(cache, last, first, &n);

	made->addr = left_moves ? kept->addr : end;
	made->size = left_moves ? addr - kept->addr : run_end - end;
	made->first = left_moves ? left_first : first;
	made->blocks = n;
	made->busy = give_blocks_to(cache, made->first, other);
	fill_run(heap, other, kept->flags & ~(CM_SEGMENT_PAGED | CM_SEGMENT_USED), kept->stack);
	kept->addr = left_moves ? end : kept->addr;
	kept->size = left_moves ? run_end - end : addr - kept->addr;
	kept->first = left_moves ? first : left_first;
	kept->blocks -= n;
	kept->busy -= made->busy;
}

/* Fills the row for the rest of a block behind the removed pages; it may be the row of the block
 * itself. */
static void fill_tail(struct cm_cache *cache, uint32_t tail, const struct cm_block *block,
		      uint64_t addr, uint64_t size, uint32_t behind)
{
	cache->block[tail] = (struct cm_block){
		.addr = addr,
		.size = size,
		.segment = block->segment,
		.age = block->age,
		.tick = block->tick,
		.next = behind,
	};
	cm_block_set_state(cache, &cache->block[tail], tail, CM_BLOCK_FREE);
}

int cm_runs_cut_locked(struct cm_heap *heap, uint32_t index, uint64_t addr, uint64_t bytes,
		       struct cm_runs_cut *ret_cut)
{
	struct cm_cache *cache = heap->cache;
	struct cm_block *block = &cache->block[index];
	const uint32_t run = block->segment, before = block->prev, behind = block->next;
	struct cm_segment *row = &cache->segment[run];
	const enum cm_pool pool = cm_segment_pool(row);
	const uint64_t end = addr + bytes, block_end = block->addr + block->size;
	const bool head = addr > block->addr, tail = end < block_end;
	const bool left = head || before, right = tail || behind;
	uint32_t last = head ? index : before, first = behind, spare_block, spare_run;
	struct split_change split = {0, 0};

	if (take_run_rows(heap, head && tail, left && right, &spare_block, &spare_run))
		return -ENOSPC;
	count_split(&split, block, -1);
	take_from_bins(heap, index);
	/* The row may get another address. */
	*cm_recent_at(&heap->device->recent, block->addr) = 0;
	if (head) {
		block->size = addr - block->addr;
		block->next = 0;
	} else if (before) {
		cache->block[before].next = 0;
	}
	if (tail) {
		first = head ? spare_block : index;
		fill_tail(cache, first, block, end, block_end - end, behind);
	}
	if (behind)
		cache->block[behind].prev = tail ? first : 0;
	/* Blocks of both sides together. */
	row->blocks += (uint32_t)head + (uint32_t)tail - 1;
	*ret_cut = (struct cm_runs_cut){last, first};
	if (left && right) {
		part(heap, run, spare_run, last, first, addr, end);
	} else if (left) {
		row->size = addr - row->addr;
	} else if (right) {
		row->size = row->addr + row->size - end;
		row->addr = end;
		row->first = first;
	} else {
		cm_rows_give_segment(cache, run);
	}
	if (head) {
		put_in_bins(heap, index);
		count_split(&split, &cache->block[index], 1);
	}
	if (tail) {
		put_in_bins(heap, first);
		count_split(&split, &cache->block[first], 1);
	}
	if (!head && !tail)
		cm_rows_give_block(heap->device, index);
	cm_lock_acquire(&cache->tables);
	cm_page_map_remove(&cache->pages, addr, bytes);
	cm_lock_release(&cache->tables);
	count_mapping(heap, pool, CM_ACTION_SEGMENT_UNMAP, addr, bytes, (int64_t)left + right - 1,
		      &split);
	return 0;
}
