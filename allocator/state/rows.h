/* SPDX-License-Identifier: MIT */
/*
 * Unused rows of the segment table, walks over it, and rings of events; unused rows of blocks are
 * in state.h.
 */
#ifndef CM_ALLOCATOR_STATE_ROWS_H
#define CM_ALLOCATOR_STATE_ROWS_H

#include <stdint.h>

#include "allocator/state/state.h"

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
