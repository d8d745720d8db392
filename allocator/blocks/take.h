/* SPDX-License-Identifier: MIT */
/*
 * Allocates a ready block: the smallest that fits leaves its bin, is split if the remainder is
 * useful, and enters the page map and the counters. Inline, since every request runs this code:
 * each pool and each kind of search gets a copy with constants.
 *
 * `device` is the heap's, which the compiler would read again behind the lock. Its lock is held.
 * Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_TAKE_H
#define CM_ALLOCATOR_BLOCKS_TAKE_H

#include <assert.h>
#include <errno.h>

#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* Whether the policy lets the block serve `size` bytes, and lets it be split for them. */
bool cm_take_fits_by_policy(const struct cm_heap *heap, const struct cm_block *block,
			    uint64_t size);
bool cm_take_splits_by_policy(const struct cm_heap *heap, enum cm_pool pool,
			      const struct cm_block *block, uint64_t size);

CM_ALWAYS_INLINE bool cm_take_remainder_serves(const struct cm_heap *heap, enum cm_pool pool,
					       uint64_t size, uint64_t rest)
{
	return pool == CM_POOL_SMALL ? rest > size >> heap->small_rest_shift
				     : rest > heap->rest_most;
}

/* Most processes configure nothing: then a block that is large enough fits, and its segment need
 * not be read. */
CM_ALWAYS_INLINE bool cm_take_fits(const struct cm_heap *heap, const struct cm_block *block,
				   uint64_t size)
{
	return CM_LIKELY(heap->cache->plain) || cm_take_fits_by_policy(heap, block, size);
}

CM_ALWAYS_INLINE bool cm_take_splits(const struct cm_heap *heap, enum cm_pool pool,
				     const struct cm_block *block, uint64_t size)
{
	if (CM_LIKELY(heap->cache->plain))
		return cm_take_remainder_serves(heap, pool, size, block->size - size);
	return block->size > size && cm_take_splits_by_policy(heap, pool, block, size);
}

/* Splits the `rest_size` bytes behind the first `size` ones off as a free block of their own, and
 * puts that into the bins; 0: no row left. */
CM_ALWAYS_INLINE uint32_t cm_take_split(struct cm_heap *heap, struct cm_device *device,
					struct cm_segment *segment, enum cm_pool pool,
					struct cm_block *block, uint32_t index, uint64_t size,
					uint64_t rest_size)
{
	struct cm_bins *bins = &heap->bins[pool];
	struct cm_block *tail;
	uint32_t rest = cm_rows_take_block(device), next = block->next;

	if (CM_UNLIKELY(!rest))
		return 0;
	tail = &bins->block[rest];
	tail->addr = block->addr + size;
	tail->size = rest_size;
	tail->prev = index;
	tail->next = next;
	tail->segment = block->segment;
	tail->requested = 0;
	cm_block_set_state(heap->cache, tail, rest, CM_BLOCK_FREE);
	tail->age = block->age;
	tail->tick = block->tick;
	if (next)
		bins->block[next].prev = rest;
	block->next = rest;
	block->size = size;
	segment->blocks++;
	if (pool == CM_POOL_SMALL)
		cm_bins_push(bins, rest);
	else
		cm_bins_insert(bins, rest);
	return rest;
}

/* How an allocation changes the counters of free blocks of segments in use (PyTorch's
 * inactive_split). */
CM_ALWAYS_INLINE void cm_take_count_split(struct cm_device *device, struct cm_device_row *row,
					  enum cm_pool pool, struct cm_segment *segment, bool rest,
					  uint64_t size)
{
	bool passed;

	if (CM_LIKELY(segment->busy++)) {
		cm_counters_lower(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES, (int64_t)size);
		if (!rest)
			cm_counters_lower(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
	} else if (segment->blocks > 1) {
		passed = cm_counters_raise(row, pool, CM_STAT_INACTIVE_SPLIT, segment->blocks - 1);
		passed |= cm_counters_raise(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES,
					    (int64_t)(segment->size - size));
		if (CM_UNLIKELY(passed))
			cm_shards_trade_locked(device);
	}
}

/* Allocates a free block that is in no bin. Splits off `rest_size` bytes at its end, if that is not
 * 0 and a row is left. `usual`: the policy and what is recorded are the defaults. Returns its
 * address. */
CM_ALWAYS_INLINE uint64_t cm_take_allocate(struct cm_heap *heap, struct cm_device *device,
					   enum cm_pool pool, struct cm_block *block,
					   uint32_t index, uint64_t size, uint64_t bytes,
					   uint64_t rest_size, enum cm_scalar source, bool usual)
{
	struct cm_cache *cache = heap->cache;
	struct cm_device_row *row = device->row;
	struct cm_segment *segment = &cache->segment[block->segment];
	const uint64_t addr = block->addr;
	const uint32_t stack = usual ? 0 : cm_thread.stack;
	const uint64_t tick = usual ? cm_tick() : cm_cache_tick(cache);
	uint32_t rest = 0;

	/* For the later free, which reads the segment's row. */
	__builtin_prefetch(segment);
	cm_block_set_state(cache, block, index, CM_BLOCK_LIVE);
	*cm_recent_at(&device->recent, addr) = index;
	/* Else its cell names it since its first use. */
	if (!block->requested)
		cm_page_map_enter(&cache->pages, addr, index);
	block->requested = bytes;
	block->stack = stack;
	if (rest_size)
		rest = cm_take_split(heap, device, segment, pool, block, index, size, rest_size);
	if (!rest)
		size = block->size;
	heap->live_bytes += size;

	cm_counters_begin(row);
	cm_take_count_split(device, row, pool, segment, rest != 0, size);
	if (CM_UNLIKELY(cm_counters_alloc(row, pool, (int64_t)size, (int64_t)bytes)))
		cm_shards_trade_locked(device);
	cm_counters_count(row, source, 1);
	if (!usual && CM_UNLIKELY(size >= cache->policy.max_split_size))
		cm_stat4_raise(&row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], 1);
	block->tick = tick;
	(void)cm_ring_add(&device->ring, &row->event_next, CM_ACTION_ALLOC, pool, heap->index,
			  cm_origin_of(stack), tick, addr, bytes);
	cm_counters_end(row);
	return addr;
}

/* Whether a batch is complete, or another one since a poll found nothing ready. With an old driver
 * the host would have to wait, which a hit never does. */
CM_ALWAYS_INLINE bool cm_take_batch_waits(const struct cm_heap *heap,
					  const struct cm_device *device)
{
	return CM_UNLIKELY(heap->row->pending_bytes >= heap->polled_bytes + device->poll_bytes) &&
	       heap->can & CM_CAN_CTX_EVENTS;
}

/*
 * Whether to poll first although a block fits: see poll_policy.h, and fragmentation.h for a split
 * that pins memory. Also now and then while many blocks are pending: retiring them is cheap while
 * their rows are in the processor's caches.
 */
CM_ALWAYS_INLINE bool cm_take_should_poll(struct cm_heap *heap, const struct cm_device *device,
					  enum cm_pool pool, const struct cm_block *block,
					  uint64_t size)
{
	const struct cm_heap_row *row = heap->row;

	if (CM_UNLIKELY(heap->searches[pool] % CM_PENDING_BLOCKS == 0 &&
			row->pending_blocks >= CM_PENDING_BLOCKS))
		return true;
	if (cm_take_batch_waits(heap, device) && cm_poll_policy_wants_batch_locked(heap))
		return true;
	return pool == CM_POOL_LARGE && CM_UNLIKELY(heap->watches_splits) &&
	       block->size - size > CM_SMALL_MAX &&
	       cm_fragmentation_should_poll_locked(heap, block, size);
}

enum cm_take_way {
	CM_TAKE_USUAL, /* see cm_take_first */
	CM_TAKE_FIRST,
	CM_TAKE_SPARING, /* see fragmentation.h */
	CM_TAKE_ANY,
};

/* Allocates a block from the bins; 0: none fits. */
CM_ALWAYS_INLINE int cm_take_found(struct cm_heap *heap, struct cm_device *device,
				   enum cm_pool pool, struct cm_bins_found found, uint64_t size,
				   uint64_t bytes, enum cm_scalar source, bool usual,
				   uint64_t *ret_addr)
{
	uint64_t rest_size;

	if (CM_UNLIKELY(!found.index || (!usual && !cm_take_fits(heap, found.block, size))))
		return -ENOENT;
	rest_size = found.block->size - size;
	if (usual ? !cm_take_remainder_serves(heap, pool, size, rest_size)
		  : !cm_take_splits(heap, pool, found.block, size))
		rest_size = 0;
	/* Each block that is found in the small pool is the first one. */
	if (found.bin || (pool == CM_POOL_SMALL && usual))
		cm_bins_pop(&heap->bins[pool], found);
	else
		cm_bins_remove(&heap->bins[pool], found.index);
	*ret_addr = cm_take_allocate(heap, device, pool, found.block, found.index, size, bytes,
				     rest_size, source, usual);
	return 0;
}

/* Searches the bins: each cache hit comes through here. */
CM_ALWAYS_INLINE int cm_take_from_pool(struct cm_heap *heap, struct cm_device *device,
				       enum cm_pool pool, uint64_t size, uint64_t bytes,
				       enum cm_take_way way, uint64_t *ret_addr)
{
	struct cm_bins *bins = &heap->bins[pool];
	struct cm_bins_found found =
		way == CM_TAKE_SPARING && pool == CM_POOL_LARGE && CM_UNLIKELY(heap->watches_splits)
			? cm_bins_at(bins, cm_fragmentation_find_locked(heap, size), 0)
			: cm_bins_find(bins, size);

	if (pool == CM_POOL_SMALL && CM_UNLIKELY(!found.index) && heap->may_be_apart &&
	    cm_heap_merge_locked(heap, size, CM_MERGE_LOOKS))
		found = cm_bins_find(bins, size);
	if (way <= CM_TAKE_FIRST &&
	    CM_UNLIKELY(found.index && cm_take_should_poll(heap, device, pool, found.block, size)))
		return -ENOENT;
	heap->searches[pool]++;
	return cm_take_found(heap, device, pool, found, size, bytes, CM_SCALAR_cache_hits,
			     way == CM_TAKE_USUAL, ret_addr);
}

/* Each pool has code of its own, in which the places of its counters are constants. */
CM_ALWAYS_INLINE int cm_take(struct cm_heap *heap, struct cm_device *device, uint64_t size,
			     uint64_t bytes, enum cm_take_way way, uint64_t *ret_addr)
{
	assert(cm_lock_is_held(&heap->device->lock));
	return size <= CM_SMALL_MAX
		       ? cm_take_from_pool(heap, device, CM_POOL_SMALL, size, bytes, way, ret_addr)
		       : cm_take_from_pool(heap, device, CM_POOL_LARGE, size, bytes, way, ret_addr);
}

/*
 * A request's first try: takes the device's lock, as the thread `self`. As cm_heap_take_locked, but
 * also -ENOENT if polling comes first: for pending blocks (poll_policy.h), for a block that is kept
 * whole (fragmentation.h), or as CM_PENDING_BLOCKS of any size are pending. A heap that drains has
 * nothing in its bins. `usual`: the policy and what is recorded are the defaults.
 */
CM_ALWAYS_INLINE int cm_take_first(struct cm_heap *heap, uint32_t self, uint64_t size,
				   uint64_t bytes, bool usual, uint64_t *ret_addr)
{
	struct cm_device *device = heap->device;
	int err;

	cm_lock_acquire_as(&device->lock, self);
	err = cm_take(heap, device, size, bytes, usual ? CM_TAKE_USUAL : CM_TAKE_FIRST, ret_addr);
	cm_lock_release_as(&device->lock, self);
	return err;
}

#endif
