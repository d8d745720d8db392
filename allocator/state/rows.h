/* SPDX-License-Identifier: MIT */
/*
 * Unused rows of the segment table, walks over it, and rings of events; unused rows of blocks are
 * in state.h.
 */
#ifndef CM_ALLOCATOR_STATE_ROWS_H
#define CM_ALLOCATOR_STATE_ROWS_H

#include <stdint.h>

#include "allocator/state/state.h"

/* A segment row, all of which the caller fills; 0 if the table is full or no memory is left for
 * it. */
uint32_t cm_rows_take_segment(struct cm_cache *cache);
void cm_rows_give_segment(struct cm_cache *cache, uint32_t index);

/* One more than the highest segment row ever used. */
uint32_t cm_rows_segments(struct cm_cache *cache);

/* The block of the device that the address lies in, or 0. The start of one in use is found at once,
 * for any other address the segments are walked. The device's lock is held. */
uint32_t cm_rows_find_block_locked(struct cm_device *device, uint64_t addr);

/* Opens a ring, of a device row, if events are recorded of the device, whose first row is `first`.
 * Without memory for it, its events are not recorded; that is no failure. */
void cm_cache_open_ring(struct cm_cache *cache, enum cm_table table, uint32_t index, uint32_t first,
			struct cm_ring *ret_ring);

/* After so many rows a long walk over segments releases the lock for a moment: they take some tens
 * of microseconds if none of them is in the processor's caches. */
#define CM_ROWS_SLICE 1024u
static inline uint32_t cm_rows_slice(uint32_t from, uint32_t end)
{
	return end - from < CM_ROWS_SLICE ? end : from + CM_ROWS_SLICE;
}

#endif
