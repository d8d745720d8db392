/* SPDX-License-Identifier: MIT */
#include "allocator/heap.h"

#include <assert.h>
#include <errno.h>

#include "allocator/rows.h"
#include "allocator/size_class.h"
#include "stats/books.h"

static bool is_split(const struct cm_block *block)
{
	return block->prev || block->next;
}

/*
 * PyTorch's two limits on fit where max_split_size is finite: oversize blocks serve oversize
 * requests only, and those take no block much larger than they need. A segment that is exact serves
 * what wastes at most an eighth of it.
 */
static bool is_fit(const struct cm_cache *cache, const struct cm_block *block, uint64_t size)
{
	const struct cm_segment *segment = &cache->segment[block->segment];
	const struct cm_policy *policy = &cache->policy;

	if (size < policy->max_split_size && block->size >= policy->max_split_size)
		return false;
	if (size >= policy->max_split_size && block->size >= size + policy->max_non_split_rounding)
		return false;
	if (segment->flags & CM_SEGMENT_EXACT)
		return block->size - size <=
		       size / 8 + (segment->flags & CM_SEGMENT_SMALL ? 0 : CM_SEGMENT_GRAIN);
	return true;
}

static bool is_worth_splitting(const struct cm_cache *cache, const struct cm_segment *segment,
			       uint64_t size, uint64_t remainder)
{
	if (segment->flags & CM_SEGMENT_EXACT)
		return false;
	if (segment->flags & CM_SEGMENT_SMALL)
		return remainder >= CM_GRAIN;
	return size < cache->policy.max_split_size && remainder > CM_SMALL_MAX;
}

/* Cuts what lies behind the first `size` bytes off as a free block of its own; 0: no row left. */
static uint32_t split(struct cm_heap *heap, struct cm_block *block, uint32_t index, uint64_t size)
{
	struct cm_cache *cache = heap->cache;
	uint32_t rest = cm_rows_take_block(heap->device);
	struct cm_block *tail = &cache->block[rest];

	if (!rest)
		return 0;
	tail->addr = block->addr + size;
	tail->size = block->size - size;
	tail->segment = block->segment;
	tail->state = CM_BLOCK_FREE;
	tail->age = block->age;
	tail->tick = block->tick;
	tail->prev = index;
	tail->next = block->next;
	if (block->next)
		cache->block[block->next].prev = rest;
	block->next = rest;
	block->size = size;
	cache->segment[block->segment].blocks++;
	return rest;
}

/* What a hand-out does to the free pieces of segments in use (PyTorch's inactive_split). */
static void book_split(struct cm_device_row *row, enum cm_pool pool, bool was_split, bool rest,
		       uint64_t size, uint64_t rest_size)
{
	if (was_split) {
		cm_books_lower(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, (int64_t)size);
		if (!rest)
			cm_books_lower(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
	} else if (rest) {
		cm_books_raise(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
		cm_books_raise(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, (int64_t)rest_size);
	}
}

/* Hands out a free block, cut to size where that is worth it. Room for the pointer was reserved. */
static void hand_out(struct cm_heap *heap, uint32_t index, uint64_t size, uint64_t bytes,
		     enum cm_scalar source)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device *device = heap->device;
	struct cm_block *block = &cache->block[index];
	const struct cm_segment *segment = &cache->segment[block->segment];
	struct cm_bins *bins = &heap->bins[cm_segment_fit(segment)];
	enum cm_pool pool = cm_segment_pool(segment);
	bool was_split = is_split(block);
	uint64_t remainder = block->size - size;
	uint32_t rest = 0;

	if (cm_segment_is_recycled(cache, segment))
		cm_bins_remove(bins, index);
	if (is_worth_splitting(cache, segment, size, remainder))
		rest = split(heap, block, index, size);
	if (rest)
		cm_bins_insert(bins, rest);
	block->state = CM_BLOCK_LIVE;
	block->requested = bytes;
	block->stack = 0;
	block->tick = cache->ops->tick();
	block->link_prev = block->link_next = 0;
	cm_ptr_map_add(&device->map, block->addr, index);
	heap->live_bytes += block->size;

	cm_books_begin(device->row);
	book_split(device->row, pool, was_split, rest != 0, block->size, remainder);
	cm_books_hand_out(device->row, pool, (int64_t)block->size, (int64_t)bytes);
	cm_books_count(device->row, source, 1);
	if (CM_UNLIKELY(block->size >= cache->policy.max_split_size))
		cm_stat4_raise(&device->row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], 1);
	cm_device_note_locked(device, CM_ACTION_ALLOC, pool, heap->index, block->tick, block->addr,
			      bytes);
	cm_books_end(device->row);
}

/* Cutting a large block while much waits for the device: a block that has just been freed may fit
 * better, or join others, once the driver has been asked. */
static bool is_hasty(const struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	return size > CM_SMALL_MAX && block->size - size > CM_SMALL_MAX &&
	       heap->row->pending_bytes * CM_PENDING_SHARE > heap->live_bytes;
}

int cm_heap_try_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	uint32_t fit = size <= CM_SMALL_MAX ? CM_FIT_SMALL : CM_FIT_LARGE;
	uint32_t index = cm_bins_find(&heap->bins[fit], size);

	if (CM_UNLIKELY(index && is_hasty(heap, &heap->cache->block[index], size)))
		return -ENOENT;
	return cm_heap_take_locked(heap, size, bytes, ret_addr);
}

int cm_heap_take_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	uint32_t fit = size <= CM_SMALL_MAX ? CM_FIT_SMALL : CM_FIT_LARGE;
	uint32_t index = cm_bins_find(&heap->bins[fit], size);

	assert(cm_lock_is_held(&heap->device->lock));
	heap->searches[fit]++;
	if (!index || !is_fit(heap->cache, &heap->cache->block[index], size))
		return -ENOENT;
	if (CM_UNLIKELY(cm_ptr_map_reserve(&heap->device->map)))
		return -ENOMEM;
	hand_out(heap, index, size, bytes, CM_SCALAR_cache_hits);
	*ret_addr = heap->cache->block[index].addr;
	return 0;
}

static void fill_segment(struct cm_heap *heap, uint32_t s, uint32_t b, uint64_t addr, uint64_t size,
			 uint32_t flags)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *segment = &cache->segment[s];
	struct cm_block *block = &cache->block[b];

	segment->addr = block->addr = addr;
	segment->size = block->size = size;
	segment->context = heap->ctx;
	segment->heap = heap->index;
	__atomic_store_n(&segment->device, heap->device->index, __ATOMIC_RELAXED);
	segment->first = b;
	segment->blocks = 1;
	segment->stack = 0;
	segment->tick = block->tick = cache->ops->tick();
	block->segment = s;
	block->state = CM_BLOCK_FREE;
	block->age = heap->searches[flags & CM_SEGMENT_SMALL ? CM_FIT_SMALL : CM_FIT_LARGE];
	/* Release: who sees that the row is in use sees whose. */
	__atomic_store_n(&segment->flags, flags | CM_SEGMENT_USED, __ATOMIC_RELEASE);
}

/* Rows for a segment and its block, and its place in the page map; all or nothing. */
static int take_rows(struct cm_heap *heap, uint64_t addr, uint64_t size, uint32_t *ret_segment,
		     uint32_t *ret_block)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, b;
	int err;

	b = cm_rows_take_block(heap->device);
	s = b ? cm_rows_take_segment(cache) : 0;
	cm_lock_acquire(&cache->tables);
	err = s ? cm_page_map_add(&cache->pages, addr, size, heap->device->index) : -ENOSPC;
	cm_lock_release(&cache->tables);
	if (err) {
		if (s)
			cm_rows_give_segment(cache, s);
		if (b)
			cm_rows_give_block(heap->device, b);
		return -ENOSPC;
	}
	*ret_segment = s;
	*ret_block = b;
	return 0;
}

static void book_segment(struct cm_heap *heap, const struct cm_segment *segment)
{
	struct cm_device *device = heap->device;
	enum cm_pool pool = cm_segment_pool(segment);

	cm_books_begin(device->row);
	cm_books_raise(device->row, pool, CM_STAT_SEGMENT, 1);
	cm_books_raise(device->row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	if (segment->size >= heap->cache->policy.max_split_size)
		cm_stat4_raise(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_books_count(device->row, CM_SCALAR_num_device_alloc, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_ALLOC, pool, heap->index, segment->tick,
			      segment->addr, segment->size);
	cm_books_end(device->row);
}

int cm_heap_take_new_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			    uint32_t flags, uint64_t size, uint64_t bytes)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, b;
	int err;

	assert(cm_lock_is_held(&heap->device->lock));
	err = cm_ptr_map_reserve(&heap->device->map);
	if (!err)
		err = take_rows(heap, addr, segment_size, &s, &b);
	if (err)
		return err;
	fill_segment(heap, s, b, addr, segment_size, flags);
	if (cm_segment_is_recycled(cache, &cache->segment[s]))
		cm_bins_insert(&heap->bins[cm_segment_fit(&cache->segment[s])], b);
	book_segment(heap, &cache->segment[s]);
	hand_out(heap, b, size, bytes, CM_SCALAR_cache_misses);
	return 0;
}

void cm_heap_remove_segment_locked(struct cm_cache *cache, uint32_t s)
{
	struct cm_segment *segment = &cache->segment[s];
	struct cm_heap *heap = cm_segment_heap(cache, segment);
	struct cm_device *device = heap->device;
	enum cm_pool pool = cm_segment_pool(segment);

	if (cm_segment_is_recycled(cache, segment))
		cm_bins_remove(&heap->bins[cm_segment_fit(segment)], segment->first);
	cm_books_begin(device->row);
	cm_books_lower(device->row, pool, CM_STAT_SEGMENT, 1);
	cm_books_lower(device->row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	if (segment->size >= cache->policy.max_split_size)
		cm_stat4_lower(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_books_count(device->row, CM_SCALAR_num_device_free, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_FREE, pool, heap->index, cache->ops->tick(),
			      segment->addr, segment->size);
	cm_books_end(device->row);
	cm_rows_give_block(device, segment->first);
	cm_rows_give_segment(cache, s);
}

/* Joins `right` to its left neighbour `left`; the row of `right` becomes spare. */
static void join(struct cm_heap *heap, uint32_t left, uint32_t right)
{
	struct cm_block *a = &heap->cache->block[left], *b = &heap->cache->block[right];

	a->size += b->size;
	a->next = b->next;
	if (b->next)
		heap->cache->block[b->next].prev = left;
	heap->cache->segment[a->segment].blocks--;
	cm_rows_give_block(heap->device, right);
}

/* One block becomes FREE. True where its segment is recycled: it goes to the bins, as its free
 * neighbours are there. */
static bool retire_block(struct cm_heap *heap, uint32_t index, uint64_t tick)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device_row *row = heap->device->row;
	struct cm_block *block = &cache->block[index];
	const struct cm_segment *segment = &cache->segment[block->segment];
	struct cm_bins *bins = &heap->bins[cm_segment_fit(segment)];
	enum cm_pool pool = cm_segment_pool(segment);
	bool recycled = cm_segment_is_recycled(cache, segment);
	int64_t count = 0, bytes = 0;
	uint32_t side, other;

	cm_books_ready(row, pool, (int64_t)block->size, (int64_t)block->requested);
	cm_device_note_locked(heap->device, CM_ACTION_FREE_COMPLETED, pool, heap->index, tick,
			      block->addr, block->requested);
	block->state = CM_BLOCK_FREE;
	block->link_prev = block->link_next = 0;
	for (side = 0; side < 2; side++) {
		other = side ? block->next : block->prev;
		if (!other || cache->block[other].state != CM_BLOCK_FREE)
			continue;
		count--;
		bytes -= (int64_t)cache->block[other].size;
		if (recycled)
			cm_bins_remove(bins, other);
		if (side) {
			join(heap, index, other);
		} else {
			join(heap, other, index);
			index = other;
			block = &cache->block[index];
		}
	}
	block->tick = tick;
	block->age = heap->searches[cm_segment_fit(segment)];
	if (recycled)
		cm_bins_insert(bins, index);
	if (is_split(block)) {
		count++;
		bytes += (int64_t)block->size;
	}
	cm_books_change(row, pool, CM_STAT_INACTIVE_SPLIT, count);
	cm_books_change(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, bytes);
	return recycled;
}

static void join_open_epoch(struct cm_heap *heap, uint32_t index)
{
	struct cm_block *block = heap->cache->block;
	struct cm_epoch *open = &heap->open;

	block[index].state = CM_BLOCK_PENDING;
	block[index].link_next = 0;
	if (open->last)
		block[open->last].link_next = index;
	else
		open->first = index;
	open->last = index;
	open->blocks++;
	open->bytes += block[index].size;
	open->work = heap->cache->ops->work_number();
	heap->row->pending_blocks++;
	heap->row->pending_bytes += block[index].size;
}

bool cm_heap_free_locked(struct cm_heap *heap, uint32_t index)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device *device = heap->device;
	struct cm_block *block = &cache->block[index];
	const struct cm_segment *segment = &cache->segment[block->segment];
	enum cm_pool pool = cm_segment_pool(segment);
	bool recycled = cm_segment_is_recycled(cache, segment);

	assert(cm_lock_is_held(&heap->device->lock));
	heap->live_bytes -= block->size;
	block->tick = cache->ops->tick();
	cm_books_begin(device->row);
	cm_books_free(device->row, pool, (int64_t)block->size);
	if (CM_UNLIKELY(block->size >= cache->policy.max_split_size))
		cm_stat4_lower(&device->row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], 1);
	cm_device_note_locked(device, CM_ACTION_FREE_REQUESTED, pool, heap->index, block->tick,
			      block->addr, block->requested);
	if (recycled)
		join_open_epoch(heap, index);
	else
		(void)retire_block(heap, index, block->tick);
	cm_books_end(device->row);
	return !recycled;
}

void cm_heap_retire_locked(struct cm_heap *heap, struct cm_epoch *epoch)
{
	uint64_t tick = heap->cache->ops->tick();
	uint32_t index = epoch->first, next;

	assert(cm_lock_is_held(&heap->device->lock));
	cm_books_begin(heap->device->row);
	for (; index; index = next) {
		next = heap->cache->block[index].link_next;
		if (!retire_block(heap, index, tick))
			cm_device_note_orphan(heap->device);
	}
	cm_books_count(heap->device->row, CM_SCALAR_epochs_ready, epoch->first != 0);
	cm_books_end(heap->device->row);
	heap->row->pending_blocks -= epoch->blocks;
	heap->row->pending_bytes -= epoch->bytes;
	epoch->first = epoch->last = 0;
	epoch->blocks = epoch->bytes = 0;
}

void cm_heap_unbin_segment_locked(struct cm_heap *heap, const struct cm_segment *segment)
{
	uint32_t index;

	assert(cm_lock_is_held(&heap->device->lock));
	for (index = segment->first; index; index = heap->cache->block[index].next)
		if (heap->cache->block[index].state == CM_BLOCK_FREE)
			cm_bins_remove(&heap->bins[cm_segment_fit(segment)], index);
}
