/* SPDX-License-Identifier: MIT */
/*
 * The parts of cm_cache_check (cache.h): each verifies one structure of a device and computes the
 * sums that the next one compares. Caller holds the device's lock. False: the first contradiction
 * is in `why`.
 */
#ifndef CM_ALLOCATOR_CHECK_CHECK_H
#define CM_ALLOCATOR_CHECK_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/check/why.h"
#include "allocator/state/state.h"

/* The bins of one pool: bitmaps and lists agree, every block is FREE and recycled, and its segment
 * is the heap's and the pool's. Counts them. */
bool cm_check_bins(const struct cm_heap *heap, enum cm_pool pool, const struct cm_why *why,
		   uint64_t *ret_blocks);

/* The pages of one pool: they are those of its runs, whose bytes the caller has summed up. */
bool cm_check_paged(const struct cm_heap *heap, enum cm_pool pool, uint64_t bytes,
		    const struct cm_why *why);

/* Pinned memory: its rows, lists, map and counters. Every row belongs to host memory; the caller
 * has seen the rows in the tables. Its lock and the event lock are held. */
bool cm_check_pinned(const struct cm_cache *cache, const struct cm_why *why);

#endif
