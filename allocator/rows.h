/* SPDX-License-Identifier: MIT */
/*
 * Unused rows of the block and segment tables. Block rows are fetched for a device in batches, so
 * that the tables' lock is taken once in many splits.
 */
#ifndef CM_ALLOCATOR_ROWS_H
#define CM_ALLOCATOR_ROWS_H

#include <stdint.h>

#include "allocator/heap.h"

/* A block row for the device, zeroed; 0 where the table is full or cannot be backed. */
uint32_t cm_rows_take_block(struct cm_device *device);
void cm_rows_give_block(struct cm_device *device, uint32_t index);

/* A segment row, all of which the caller fills; 0 where the table is full or cannot be backed. */
uint32_t cm_rows_take_segment(struct cm_cache *cache);
void cm_rows_give_segment(struct cm_cache *cache, uint32_t index);

/* One more than the highest segment row ever used. */
uint32_t cm_rows_segments(struct cm_cache *cache);

#endif
