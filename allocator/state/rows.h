/* SPDX-License-Identifier: MIT */
/*
 * Unused rows of the block and segment tables. Block rows are fetched for a device in batches, so
 * that the tables' lock is taken once in many splits.
 */
#ifndef CM_ALLOCATOR_STATE_ROWS_H
#define CM_ALLOCATOR_STATE_ROWS_H

#include <stdint.h>

#include "allocator/state/state.h"

/* Adds a batch of fresh block rows to the device's spare ones, or nothing where there are none. */
void cm_rows_fetch_blocks(struct cm_device *device);

/* A block row for the device, all of which the caller fills; 0 where the table is full or cannot be
 * backed. */
CM_ALWAYS_INLINE uint32_t cm_rows_take_block(struct cm_device *device)
{
	uint32_t index;

	if (CM_UNLIKELY(!device->spare_block))
		cm_rows_fetch_blocks(device);
	index = device->spare_block;
	if (CM_LIKELY(index))
		device->spare_block = device->cache->block[index].link_next;
	return index;
}

CM_ALWAYS_INLINE void cm_rows_give_block(struct cm_device *device, uint32_t index)
{
	struct cm_block *block = &device->cache->block[index];

	cm_block_set_state(device->cache, index, CM_BLOCK_NONE);
	block->link_next = device->spare_block;
	device->spare_block = index;
}

/* A segment row, all of which the caller fills; 0 where the table is full or cannot be backed. */
uint32_t cm_rows_take_segment(struct cm_cache *cache);
void cm_rows_give_segment(struct cm_cache *cache, uint32_t index);

/* One more than the highest segment row ever used. */
uint32_t cm_rows_segments(struct cm_cache *cache);

/* Opens a ring where events are recorded. One that cannot be backed is no reason to fail: its
 * events are then not recorded. */
void cm_cache_open_ring(struct cm_cache *cache, enum cm_table table, uint32_t index,
			struct cm_ring *ret_ring);

/* Where a walk over segments that has time lets the others have the lock: so many rows take some
 * tens of microseconds where none of them is in the processor's caches. */
#define CM_ROWS_SLICE 1024u
static inline uint32_t cm_rows_slice(uint32_t from, uint32_t end)
{
	return end - from < CM_ROWS_SLICE ? end : from + CM_ROWS_SLICE;
}

#endif
