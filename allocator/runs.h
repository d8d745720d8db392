/* SPDX-License-Identifier: MIT */
/*
 * Segments that grow and shrink by pages: runs. A run is a segment (CM_SEGMENT_PAGED) that starts and
 * ends at page boundaries of one reserved range of addresses; between two runs lies a gap with no
 * memory behind it. Blocks tile a run as they tile any segment, so nothing else in the allocator knows
 * of pages.
 *
 * Only rows, bins and books are changed here, under the device's lock; paged.c says which pages, and
 * calls the driver. Each function counts as one change, so that no peak sees a state in between.
 */
#ifndef CM_ALLOCATOR_RUNS_H
#define CM_ALLOCATOR_RUNS_H

#include "allocator/heap.h"

/*
 * Enters [addr, addr + bytes) as free memory of the pool that `flags` name (CM_SEGMENT_SMALL or 0),
 * joined with the run `left` that ends at addr and the run `right` that begins behind it; 0: neither.
 * The page map knows the addresses. -ENOSPC: no rows left, nothing was changed.
 */
int cm_runs_add_locked(struct cm_heap *heap, uint32_t flags, uint64_t addr, uint64_t bytes,
		       uint32_t left, uint32_t right, uint32_t *ret_run);

/* What is left of a run that was cut: the parts before and behind, 0 where there is none. */
struct cm_runs_cut {
	uint32_t left;
	uint32_t right;
};

/* Takes [addr, addr + bytes), which the free block `index` covers, out of its run. -ENOSPC as above. */
int cm_runs_cut_locked(struct cm_heap *heap, uint32_t index, uint64_t addr, uint64_t bytes,
		       struct cm_runs_cut *ret_cut);

/* The last block of a run. `hint` is a block that was in it once, or 0; the nearer, the faster. */
uint32_t cm_runs_last_block(const struct cm_cache *cache, uint32_t run, uint32_t hint);

#endif
