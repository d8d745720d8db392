/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/heap.h"

#include <assert.h>
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/take.h"
#include "allocator/state/limit.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

/*
 * PyTorch's two limits on fit if max_split_size is finite: oversize blocks serve only oversize
 * requests, and these take no block much larger than they need. An exact segment serves requests
 * that waste at most an eighth of it, and less where the card is nearly full.
 */
bool cm_take_fits_by_policy(const struct cm_heap *heap, const struct cm_block *block, uint64_t size)
{
	const struct cm_segment *segment = &heap->cache->segment[block->segment];
	const struct cm_policy *policy = &heap->cache->policy;
	const uint64_t rest = block->size - size;

	/* Such a block has a size by chance, and is no driver allocation. */
	if (segment->flags & CM_SEGMENT_PAGED)
		return true;
	if (size < policy->max_split_size && block->size >= policy->max_split_size)
		return false;
	if (size >= policy->max_split_size && block->size >= size + policy->max_non_split_rounding)
		return false;
	if (!(segment->flags & CM_SEGMENT_EXACT))
		return true;
	if (segment->flags & CM_SEGMENT_SMALL)
		return rest <= size / 8;
	return rest <= size / 8 + CM_SEGMENT_GRAIN &&
	       cm_fragmentation_unsplit_serves_locked(heap, rest);
}

bool cm_take_splits_by_policy(const struct cm_heap *heap, enum cm_pool pool,
			      const struct cm_block *block, uint64_t size)
{
	const uint32_t flags = heap->cache->segment[block->segment].flags;

	return flags & CM_SEGMENT_PAGED ||
	       (cm_take_remainder_serves(heap, pool, size, block->size - size) &&
		size < heap->cache->policy.max_split_size && !(flags & CM_SEGMENT_EXACT));
}

int cm_heap_take_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	return cm_take(heap, heap->device, size, bytes, CM_TAKE_ANY, ret_addr);
}

int cm_heap_take_unfragmenting_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				      uint64_t *ret_addr)
{
	return cm_take(heap, heap->device, size, bytes, CM_TAKE_SPARING, ret_addr);
}

int cm_heap_take_block_locked(struct cm_heap *heap, uint32_t block, uint64_t size, uint64_t bytes,
			      enum cm_scalar source, uint64_t *ret_addr)
{
	const enum cm_pool pool = cm_size_pool(size);

	assert(cm_lock_is_held(&heap->device->lock));
	return heap->cache->block[block].size < size
		       ? -ENOENT
		       : cm_take_found(heap, heap->device, pool,
				       cm_bins_at(&heap->bins[pool], block, 0), size, bytes, source,
				       false, ret_addr);
}

static void fill_segment(struct cm_heap *heap, uint32_t s, uint32_t b, uint64_t addr, uint64_t size,
			 uint32_t flags)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *segment = &cache->segment[s];
	struct cm_block *block = &cache->block[b];

	*block = (struct cm_block){.segment = s};
	cm_block_set_state(cache, block, b, CM_BLOCK_FREE);
	segment->addr = block->addr = addr;
	segment->size = block->size = size;
	segment->context = heap->ctx;
	segment->heap = heap->index;
	__atomic_store_n(&segment->device, heap->device->index, __ATOMIC_RELAXED);
	segment->first = b;
	segment->blocks = 1;
	segment->busy = 0;
	segment->stack = cm_thread.stack;
	segment->tick = block->tick = cm_cache_tick(cache);
	block->age = heap->searches[flags & CM_SEGMENT_SMALL ? CM_POOL_SMALL : CM_POOL_LARGE];
	/* Release: a thread that sees the row in use sees whose it is. */
	__atomic_store_n(&segment->flags, flags | CM_SEGMENT_USED, __ATOMIC_RELEASE);
}

/* Rows for a segment and its block, and its place in the page map; all or nothing. */
static int take_segment_rows(struct cm_heap *heap, uint64_t addr, uint64_t size, bool small,
			     uint32_t *ret_segment, uint32_t *ret_block)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, b;
	int err;

	b = cm_rows_take_block(heap->device);
	s = b ? cm_rows_take_segment(cache) : 0;
	cm_lock_acquire(&cache->tables);
	err = s ? cm_page_map_add(&cache->pages, addr, size, heap->device->index, small) : -ENOSPC;
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

static void note_reserved(struct cm_device *device, const struct cm_segment *segment)
{
	struct cm_device *first = device->first;
	const uint64_t reserved = cm_shards_add_reserved(device, (int64_t)segment->size);
	uint64_t most = atomic_load_explicit(&first->most_reserved, memory_order_relaxed);

	if (segment->flags & (CM_SEGMENT_SMALL | CM_SEGMENT_DIRECT))
		return;
	while (most < reserved &&
	       !atomic_compare_exchange_weak_explicit(&first->most_reserved, &most, reserved,
						      memory_order_relaxed, memory_order_relaxed))
		continue;
}

static void count_new_segment(struct cm_heap *heap, const struct cm_segment *segment)
{
	struct cm_device *device = heap->device;
	enum cm_pool pool = cm_segment_pool(segment);
	bool passed;

	cm_counters_begin(device->row);
	passed = cm_counters_raise(device->row, pool, CM_STAT_SEGMENT, 1);
	passed |= cm_counters_raise(device->row, pool, CM_STAT_RESERVED_BYTES,
				    (int64_t)segment->size);
	if (passed)
		cm_shards_trade_locked(device);
	cm_counters_note_driver_use(device->first->row, (int64_t)segment->size);
	note_reserved(device, segment);
	if (segment->size >= heap->cache->policy.max_split_size)
		cm_stat4_raise(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_counters_count(device->row, CM_SCALAR_num_device_alloc, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_ALLOC, pool, heap->index, segment->stack,
			      segment->tick, segment->addr, segment->size);
	cm_counters_end(device->row);
	if (pool == CM_POOL_LARGE)
		cm_fragmentation_note_segment_locked(heap, segment->size);
	cm_fragmentation_note_reserved_locked(heap);
}

static void forget_lost_locked(struct cm_device *device, uint64_t addr)
{
	struct cm_cache *cache = device->cache;
	uint32_t index = cm_page_map_find(&cache->pages, device->index, addr), s;

	if (CM_LIKELY(!index))
		return;
	s = cache->block[index].segment;
	if (cache->segment[s].blocks != 1 || cache->segment[s].flags & CM_SEGMENT_PAGED)
		return; /* part of a segment: the driver has freed the rest, too */
	/* So that the block waits for nothing: it would do for work of other devices. */
	__atomic_fetch_or(&cache->segment[s].flags, CM_SEGMENT_DIRECT, __ATOMIC_RELAXED);
	(void)cm_heap_free_locked(cm_segment_heap(cache, &cache->segment[s]), index);
	cm_limit_give(device, cache->segment[s].size);
	cm_heap_remove_segment_locked(cache, s);
}

void cm_heap_forget_lost(struct cm_cache *cache, uint64_t addr)
{
	const uint8_t owner = cm_page_map_owner(&cache->pages, addr);

	if (owner == CM_PAGE_NONE)
		return;
	cm_lock_acquire(&cache->device[owner - 1]->lock);
	forget_lost_locked(cache->device[owner - 1], addr);
	cm_lock_release(&cache->device[owner - 1]->lock);
}

int cm_heap_add_segment_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			       uint32_t flags, uint32_t *ret_block)
{
	uint32_t s;
	int err;

	assert(cm_lock_is_held(&heap->device->lock));
	err = take_segment_rows(heap, addr, segment_size, flags & CM_SEGMENT_SMALL, &s, ret_block);
	if (err)
		return err;
	fill_segment(heap, s, *ret_block, addr, segment_size, flags);
	count_new_segment(heap, &heap->cache->segment[s]);
	return 0;
}

int cm_heap_take_new_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			    uint32_t flags, uint64_t size, uint64_t bytes)
{
	const enum cm_pool pool = flags & CM_SEGMENT_SMALL ? CM_POOL_SMALL : CM_POOL_LARGE;
	struct cm_block *block;
	uint32_t b;
	bool splits;
	int err;

	err = cm_heap_add_segment_locked(heap, addr, segment_size, flags, &b);
	if (err)
		return err;
	block = &heap->cache->block[b];
	splits = !(flags & CM_SEGMENT_EXACT) && cm_take_splits(heap, pool, block, size);
	cm_take_allocate(heap, heap->device, pool, block, b, size, bytes,
			 splits ? segment_size - size : 0, CM_SCALAR_cache_misses, false);
	return 0;
}

static void give_rows(struct cm_device *device, const struct cm_segment *segment)
{
	uint32_t index = segment->first, next;

	for (; index; index = next) {
		next = device->cache->block[index].next;
		cm_rows_give_block(device, index);
	}
}

void cm_heap_remove_segment_locked(struct cm_cache *cache, uint32_t s)
{
	struct cm_segment *segment = &cache->segment[s];
	struct cm_heap *heap = cm_segment_heap(cache, segment);
	struct cm_device *device = heap->device;
	enum cm_pool pool = cm_segment_pool(segment);

	if (cm_segment_is_recycled(cache, segment))
		cm_heap_unbin_segment_locked(heap, segment);
	cm_counters_begin(device->row);
	cm_counters_lower(device->row, pool, CM_STAT_SEGMENT, 1);
	cm_counters_lower(device->row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	(void)cm_shards_add_reserved(device, -(int64_t)segment->size);
	cm_counters_note_driver_use(device->first->row, -(int64_t)segment->size);
	if (segment->size >= cache->policy.max_split_size && !(segment->flags & CM_SEGMENT_PAGED))
		cm_stat4_lower(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_counters_count(device->row, CM_SCALAR_num_device_free, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_FREE, pool, heap->index, cm_thread.stack,
			      cm_cache_tick(cache), segment->addr, segment->size);
	cm_counters_end(device->row);
	cm_fragmentation_note_reserved_locked(heap);
	cm_lock_acquire(&cache->tables);
	cm_page_map_remove(&cache->pages, segment->addr, segment->size);
	cm_lock_release(&cache->tables);
	give_rows(device, segment);
	cm_rows_give_segment(cache, s);
}

void cm_heap_unbin_segment_locked(struct cm_heap *heap, const struct cm_segment *segment)
{
	uint32_t index;

	assert(cm_lock_is_held(&heap->device->lock));
	for (index = segment->first; index; index = heap->cache->block[index].next)
		if (heap->cache->block[index].state == CM_BLOCK_FREE)
			cm_bins_remove(&heap->bins[cm_segment_pool(segment)], index);
}
