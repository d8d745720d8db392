/* SPDX-License-Identifier: MIT */
/*
 * One walk of cm_cache_check: what its parts have found so far. All locks are held except those
 * that guard no data. False: the first contradiction is in `why`.
 */
#ifndef CM_ALLOCATOR_CHECK_CHECK_WALK_H
#define CM_ALLOCATOR_CHECK_CHECK_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/check/why.h"
#include "allocator/state/state.h"

/* In which structures a block row was found. */
enum { CM_SEEN_NOWHERE, CM_SEEN_SPARE, CM_SEEN_IN_SEGMENT, CM_SEEN_IN_EPOCH };

/* What the segments of a heap have. */
struct cm_check_heap {
	uint64_t live_bytes;
	uint64_t pending_blocks;
	uint64_t pending_bytes;
	uint64_t free_blocks[CM_POOL_COUNT]; /* in recycled segments */
	uint64_t paged_bytes[CM_POOL_COUNT]; /* of the runs */
};

/* What the rows of a device have. */
struct cm_check_device {
	int64_t stat[CM_POOL_COUNT][CM_STAT_COUNT];
	int64_t stat1[CM_STAT1_COUNT];
	uint32_t heaps;
};

struct cm_check_range {
	uint64_t addr;
	uint64_t size;
};

/* Scratch memory of one check, from a new mapping: the structures under test are not trusted. */
struct cm_check_walk {
	struct cm_cache *cache;
	struct cm_why why;
	struct cm_check_heap heap[CM_HEAPS_MAX];
	struct cm_check_device device[CM_DEVICES_MAX];
	uint32_t ranges;
	struct cm_check_range *range; /* of the segments */
	uint8_t *seen;                /* of each block row: CM_SEEN_* */
};

/* Every segment and its blocks: each by itself, and that none overlaps another. Sums them up. */
bool cm_check_segments(struct cm_check_walk *walk);

/* Behind it: each block row belongs to a segment, or is a spare row of a device. */
bool cm_check_spares(struct cm_check_walk *walk);

/* Behind all others: the counters of a device are the sums. */
bool cm_check_counters(struct cm_check_walk *walk, struct cm_device *device);

#endif
