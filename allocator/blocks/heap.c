/* SPDX-License-Identifier: MIT */
#include "allocator/check/after.h"
#include "allocator/state/state.h"

#include <assert.h>
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/entry/slow_path.h"
#include "allocator/state/rows.h"
#include "stats/counters.h"

/*
 * PyTorch's two limits on fit where max_split_size is finite: oversize blocks serve oversize
 * requests only, and those take no block much larger than they need. A segment that is exact serves
 * what wastes at most an eighth of it.
 */
static bool is_fit_by_policy(const struct cm_cache *cache, const struct cm_block *block,
			     uint64_t size)
{
	const struct cm_segment *segment = &cache->segment[block->segment];
	const struct cm_policy *policy = &cache->policy;

	/* Such a block is as large as chance has it, and no driver allocation. */
	if (segment->flags & CM_SEGMENT_PAGED)
		return true;
	if (size < policy->max_split_size && block->size >= policy->max_split_size)
		return false;
	if (size >= policy->max_split_size && block->size >= size + policy->max_non_split_rounding)
		return false;
	if (segment->flags & CM_SEGMENT_EXACT)
		return block->size - size <=
		       size / 8 + (segment->flags & CM_SEGMENT_SMALL ? 0 : CM_SEGMENT_GRAIN);
	return true;
}

CM_ALWAYS_INLINE bool is_rest_of_use(uint32_t fit, uint64_t rest)
{
	return fit == CM_FIT_SMALL ? rest >= CM_GRAIN : rest > CM_SMALL_MAX;
}

static bool is_cut_by_policy(const struct cm_cache *cache, uint32_t fit,
			     const struct cm_block *block, uint64_t size)
{
	const uint32_t flags = cache->segment[block->segment].flags;

	/* The rest of a run is cut however little it is: pages want to be full. */
	return flags & CM_SEGMENT_PAGED ||
	       (is_rest_of_use(fit, block->size - size) && size < cache->policy.max_split_size &&
		!(flags & CM_SEGMENT_EXACT));
}

/* Most processes have configured nothing: then a block that is large enough fits, and no look at
 * its segment is needed. */
CM_ALWAYS_INLINE bool is_fit(const struct cm_cache *cache, const struct cm_block *block,
			     uint64_t size)
{
	return CM_LIKELY(cache->plain) || is_fit_by_policy(cache, block, size);
}

CM_ALWAYS_INLINE bool is_worth_splitting(const struct cm_cache *cache, uint32_t fit,
					 const struct cm_block *block, uint64_t size)
{
	if (CM_LIKELY(cache->plain))
		return is_rest_of_use(fit, block->size - size);
	return block->size > size && is_cut_by_policy(cache, fit, block, size);
}

/* Cuts what lies behind the first `size` bytes off as a free block of its own, and puts it in the
 * bins; 0: no row left. */
CM_ALWAYS_INLINE uint32_t split(struct cm_heap *heap, struct cm_bins *bins, uint32_t index,
				uint64_t size)
{
	struct cm_cache *cache = heap->cache;
	struct cm_block *block = &cache->block[index], *tail;
	uint32_t rest = cm_rows_take_block(heap->device), next = block->next;

	if (CM_UNLIKELY(!rest))
		return 0;
	tail = &cache->block[rest];
	tail->addr = block->addr + size;
	tail->size = block->size - size;
	tail->requested = 0;
	tail->prev = index;
	tail->next = next;
	tail->segment = block->segment;
	tail->stack = 0;
	cm_block_set_state(cache, rest, CM_BLOCK_FREE);
	tail->age = block->age;
	tail->tick = block->tick;
	if (next)
		cache->block[next].prev = rest;
	block->next = rest;
	block->size = size;
	cache->segment[block->segment].blocks++;
	cm_bins_insert(bins, rest);
	return rest;
}

/* What a hand-out does to the free pieces of segments in use (PyTorch's inactive_split). */
CM_ALWAYS_INLINE void book_split(struct cm_device_row *row, enum cm_pool pool, bool was_split,
				 bool rest, uint64_t size, uint64_t rest_size)
{
	if (CM_LIKELY(was_split)) {
		cm_counters_lower(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, (int64_t)size);
		if (!rest)
			cm_counters_lower(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
	} else if (rest) {
		cm_counters_raise(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
		cm_counters_raise(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, (int64_t)rest_size);
	}
}

/* Hands out a free block that is in no bin, cut to size where that is worth it. Room for the
 * pointer was reserved. */
CM_ALWAYS_INLINE void hand_out(struct cm_heap *heap, uint32_t fit, uint32_t index, uint64_t size,
			       uint64_t bytes, bool worth_splitting, enum cm_scalar source)
{
	const enum cm_pool pool = cm_fit_pool(fit);
	struct cm_cache *cache = heap->cache;
	struct cm_device *device = heap->device;
	struct cm_device_row *row = device->row;
	struct cm_block *block = &cache->block[index];
	bool was_split = cm_block_is_split(block);
	uint64_t tick = cm_ops_tick(cache->ops), remainder = block->size - size;
	uint32_t rest = 0;

	/* For the free, which asks the segment whose it is. */
	__builtin_prefetch(&cache->segment[block->segment]);
	if (worth_splitting)
		rest = split(heap, &heap->bins[fit], index, size);
	size = block->size;
	cm_block_set_state(cache, index, CM_BLOCK_LIVE);
	block->requested = bytes;
	block->stack = cm_thread.stack;
	block->tick = tick;
	cm_ptr_map_add(&device->map, block->addr, index);
	heap->live_bytes += size;

	cm_counters_begin(row);
	book_split(row, pool, was_split, rest != 0, size, remainder);
	cm_counters_alloc(row, pool, (int64_t)size, (int64_t)bytes);
	cm_counters_count(row, source, 1);
	if (CM_UNLIKELY(size >= cache->policy.max_split_size))
		cm_stat4_raise(&row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], 1);
	cm_device_note_locked(device, CM_ACTION_ALLOC, pool, heap->index, block->stack, tick,
			      block->addr, bytes);
	cm_counters_end(row);
}

/* Whether a block waits that may be of a size from `least` to `most`, or the heap is wary. */
CM_ALWAYS_INLINE bool has_pending_between(const struct cm_heap *heap, uint64_t least, uint64_t most)
{
	const uint64_t above = ~UINT64_C(0) << cm_size_class(least);
	const uint64_t below = ~UINT64_C(0) >> (63 - cm_size_class(most));

	return heap->pending_sizes & above & below;
}

/*
 * Whether the driver is to be asked first although there is a block that fits: see asking.h, and
 * thrift.h where the card fills up. And now and then where many blocks wait: while their rows are
 * in the caches they are soon dealt with.
 */
CM_ALWAYS_INLINE bool is_hasty(struct cm_heap *heap, uint32_t fit, const struct cm_block *block,
			       uint64_t size)
{
	const struct cm_heap_row *row = heap->row;

	if (CM_UNLIKELY(heap->searches[fit] % CM_PENDING_BLOCKS == 0 &&
			row->pending_blocks >= CM_PENDING_BLOCKS))
		return true;
	if (cm_poll_policy_is_due_locked(heap))
		return true;
	return fit == CM_FIT_LARGE && block->size - size > CM_SMALL_MAX &&
	       has_pending_between(heap, size, block->size) &&
	       heap->searches[CM_FIT_LARGE] - heap->paused_at >= CM_POLL_PAUSE &&
	       (heap->card_fills_up ? cm_fragmentation_should_poll_locked(heap, block, size)
				    : cm_poll_policy_before_cut_locked(heap, size, block->size));
}

enum way {
	WAY_FIRST,   /* see take_first */
	WAY_SPARING, /* see thrift.h */
	WAY_ANY,
};

/* Hands out a block that stands in the bins; 0: there is none. */
CM_ALWAYS_INLINE int take_found(struct cm_heap *heap, uint32_t fit, uint32_t index, uint64_t size,
				uint64_t bytes, enum cm_scalar source, uint64_t *ret_addr)
{
	struct cm_cache *cache = heap->cache;
	const struct cm_block *block = &cache->block[index];
	bool worth;

	if (CM_UNLIKELY(!index || !is_fit(cache, block, size)))
		return -ENOENT;
	if (CM_UNLIKELY(cm_ptr_map_reserve(&heap->device->map)))
		return -ENOMEM;
	worth = is_worth_splitting(cache, fit, block, size);
	cm_bins_remove(&heap->bins[fit], index);
	hand_out(heap, fit, index, size, bytes, worth, source);
	*ret_addr = block->addr;
	return 0;
}

/* The one way by which ready memory is looked for. */
CM_ALWAYS_INLINE int take_of(struct cm_heap *heap, uint32_t fit, uint64_t size, uint64_t bytes,
			     enum way way, enum cm_scalar source, uint64_t *ret_addr)
{
	struct cm_cache *cache = heap->cache;
	struct cm_bins *bins = &heap->bins[fit];
	uint32_t index = way == WAY_SPARING && fit == CM_FIT_LARGE &&
					 CM_UNLIKELY(heap->card_fills_up)
				 ? cm_fragmentation_find_locked(heap, size)
				 : cm_bins_find(bins, size);
	const struct cm_block *block = &cache->block[index];

	if (way == WAY_FIRST && CM_UNLIKELY(index && is_hasty(heap, fit, block, size)))
		return -ENOENT;
	heap->searches[fit] += source == CM_SCALAR_cache_hits;
	return take_found(heap, fit, index, size, bytes, source, ret_addr);
}

/* Each pool has code of its own, in which the places of its books are constants. */
CM_ALWAYS_INLINE int take(struct cm_heap *heap, uint64_t size, uint64_t bytes, enum way way,
			  enum cm_scalar source, uint64_t *ret_addr)
{
	assert(cm_lock_is_held(&heap->device->lock));
	return size <= CM_SMALL_MAX
		       ? take_of(heap, CM_FIT_SMALL, size, bytes, way, source, ret_addr)
		       : take_of(heap, CM_FIT_LARGE, size, bytes, way, source, ret_addr);
}

/*
 * A first try, which takes the device's lock. As cm_heap_take_locked, but also -ENOENT where the
 * driver is worth asking first, for what waits (asking.h) or as the block is spared (thrift.h), or
 * as CM_PENDING_BLOCKS of any size wait. -EAGAIN: the heap drains.
 */
CM_ALWAYS_INLINE int take_first(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				uint64_t *ret_addr)
{
	struct cm_device *device = heap->device;
	int err;

	cm_lock_acquire(&device->lock);
	err = CM_UNLIKELY(cm_heap_flags(heap) & CM_HEAP_DRAINING)
		      ? -EAGAIN
		      : take(heap, size, bytes, WAY_FIRST, CM_SCALAR_cache_hits, ret_addr);
	cm_lock_release(&device->lock);
	return err;
}

CM_ALWAYS_INLINE int alloc(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
			   uint64_t *ret_addr)
{
	uint64_t size;
	int err;

	if (CM_UNLIKELY(!bytes || bytes > CM_REQUEST_MAX))
		return -EINVAL;
	if (CM_UNLIKELY(cache->policy.mode != CM_MODE_CACHE))
		return cm_slow_path_alloc_direct(heap, bytes, ret_addr);
	size = CM_UNLIKELY(cache->rounds) ? cm_size_round(&cache->policy, bytes)
					  : cm_size_grains(bytes);
	err = take_first(heap, size, bytes, ret_addr);
	if (CM_LIKELY(err != -ENOENT))
		return err;
	return cm_slow_path_alloc(heap, size, bytes, ret_addr);
}

int cm_cache_alloc(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	int err = alloc(cache, heap, bytes, ret_addr);

	cm_check_after(cache);
	return err;
}

int cm_heap_take_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	return take(heap, size, bytes, WAY_ANY, CM_SCALAR_cache_hits, ret_addr);
}

int cm_heap_take_unfragmenting_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				      uint64_t *ret_addr)
{
	return take(heap, size, bytes, WAY_SPARING, CM_SCALAR_cache_hits, ret_addr);
}

int cm_heap_take_block_locked(struct cm_heap *heap, uint32_t block, uint64_t size, uint64_t bytes,
			      enum cm_scalar source, uint64_t *ret_addr)
{
	const uint32_t fit = size <= CM_SMALL_MAX ? CM_FIT_SMALL : CM_FIT_LARGE;

	assert(cm_lock_is_held(&heap->device->lock));
	return heap->cache->block[block].size < size
		       ? -ENOENT
		       : take_found(heap, fit, block, size, bytes, source, ret_addr);
}

static void fill_segment(struct cm_heap *heap, uint32_t s, uint32_t b, uint64_t addr, uint64_t size,
			 uint32_t flags)
{
	struct cm_cache *cache = heap->cache;
	struct cm_segment *segment = &cache->segment[s];
	struct cm_block *block = &cache->block[b];

	*block = (struct cm_block){.segment = s};
	cm_block_set_state(cache, b, CM_BLOCK_FREE);
	segment->addr = block->addr = addr;
	segment->size = block->size = size;
	segment->context = heap->ctx;
	segment->heap = heap->index;
	__atomic_store_n(&segment->device, heap->device->index, __ATOMIC_RELAXED);
	segment->first = b;
	segment->blocks = 1;
	segment->stack = cm_thread.stack;
	segment->tick = block->tick = cm_ops_tick(cache->ops);
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
	uint64_t reserved;

	cm_counters_begin(device->row);
	cm_counters_raise(device->row, pool, CM_STAT_SEGMENT, 1);
	cm_counters_raise(device->row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	cm_counters_note_driver_use(device->row, (int64_t)segment->size);
	reserved = (uint64_t)cm_stat_current(device->row, CM_STAT_RESERVED_BYTES);
	if (!(segment->flags & (CM_SEGMENT_SMALL | CM_SEGMENT_DIRECT)) &&
	    device->most_reserved < reserved)
		device->most_reserved = reserved;
	if (segment->size >= heap->cache->policy.max_split_size)
		cm_stat4_raise(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_counters_count(device->row, CM_SCALAR_num_device_alloc, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_ALLOC, pool, heap->index, segment->stack,
			      segment->tick, segment->addr, segment->size);
	cm_counters_end(device->row);
	cm_fragmentation_note_reserved_locked(heap);
}

/* A block in use at the address that the driver has just given: it was freed past us, as a library
 * can that our doors do not reach. Its row goes the way that it would have gone with us. */
static void forget_lost(struct cm_device *device, uint64_t addr)
{
	struct cm_cache *cache = device->cache;
	uint32_t index = cm_ptr_map_find(&device->map, addr), s;

	if (CM_LIKELY(!index))
		return;
	s = cache->block[index].segment;
	if (cache->segment[s].blocks != 1 || cache->segment[s].flags & CM_SEGMENT_PAGED)
		return; /* a piece: what the driver has taken back with it is beyond help */
	__atomic_fetch_or(&cache->segment[s].flags, CM_SEGMENT_EXPORTED, __ATOMIC_RELAXED);
	(void)cm_ptr_map_remove(&device->map, addr);
	(void)cm_heap_free_locked(cm_segment_heap(cache, &cache->segment[s]), index);
	cm_heap_remove_segment_locked(cache, s);
}

int cm_heap_take_new_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			    uint32_t flags, uint64_t size, uint64_t bytes)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, b, fit;
	int err;

	assert(cm_lock_is_held(&heap->device->lock));
	forget_lost(heap->device, addr);
	err = cm_ptr_map_reserve(&heap->device->map);
	if (!err)
		err = take_rows(heap, addr, segment_size, &s, &b);
	if (err)
		return err;
	fill_segment(heap, s, b, addr, segment_size, flags);
	book_segment(heap, &cache->segment[s]);
	fit = cm_segment_fit(&cache->segment[s]);
	hand_out(heap, fit, b, size, bytes,
		 !(flags & CM_SEGMENT_EXACT) &&
			 is_worth_splitting(cache, fit, &cache->block[b], size),
		 CM_SCALAR_cache_misses);
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
	cm_counters_begin(device->row);
	cm_counters_lower(device->row, pool, CM_STAT_SEGMENT, 1);
	cm_counters_lower(device->row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	cm_counters_note_driver_use(device->row, -(int64_t)segment->size);
	if (segment->size >= cache->policy.max_split_size && !(segment->flags & CM_SEGMENT_PAGED))
		cm_stat4_lower(&device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS], 1);
	cm_counters_count(device->row, CM_SCALAR_num_device_free, 1);
	cm_device_note_locked(device, CM_ACTION_SEGMENT_FREE, pool, heap->index, cm_thread.stack,
			      cm_ops_tick(cache->ops), segment->addr, segment->size);
	cm_counters_end(device->row);
	cm_fragmentation_note_reserved_locked(heap);
	cm_rows_give_block(device, segment->first);
	cm_rows_give_segment(cache, s);
}

void cm_heap_unbin_segment_locked(struct cm_heap *heap, const struct cm_segment *segment)
{
	uint32_t index;

	assert(cm_lock_is_held(&heap->device->lock));
	for (index = segment->first; index; index = heap->cache->block[index].next)
		if (heap->cache->block[index].state == CM_BLOCK_FREE)
			cm_bins_remove(&heap->bins[cm_segment_fit(segment)], index);
}
