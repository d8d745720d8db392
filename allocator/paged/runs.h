/* SPDX-License-Identifier: MIT */
/*
 * Segments that grow and shrink by pages: runs. A run is a segment (CM_SEGMENT_PAGED) that starts
 * and ends at page boundaries of one reserved range of addresses; between two runs lies a gap with
 * no memory behind it. Blocks tile a run as they tile any segment, so nothing else in the allocator
 * knows of pages.
 *
 * Changes rows, bins and counters only, under the device's lock; paged.c chooses the pages and
 * calls the driver. Each function changes the counters once, so no peak records a state in between.
 */
#ifndef CM_ALLOCATOR_PAGED_RUNS_H
#define CM_ALLOCATOR_PAGED_RUNS_H

#include "allocator/state/state.h"

/*
 * Enters [addr, addr + bytes) as free memory of the pool that `flags` name (CM_SEGMENT_SMALL or 0),
 * joined with the run whose last block `before` ends at addr, and with the run whose first block
 * `behind` starts at its end; 0: there is none. The page map has the addresses. *ret_block is
 * the free block that contains them. -ENOSPC: no rows left, nothing was changed.
 */
int cm_runs_add_locked(struct cm_heap *heap, uint32_t flags, uint64_t addr, uint64_t bytes,
		       uint32_t before, uint32_t behind, uint32_t *ret_block);

/* The blocks before and behind the removed pages, each in a run of its own; 0 if there is none. */
struct cm_runs_cut {
	uint32_t before;
	uint32_t behind;
};

/* Takes [addr, addr + bytes), which the free block `index` covers, out of its run. -ENOSPC as
 * above. */
int cm_runs_cut_locked(struct cm_heap *heap, uint32_t index, uint64_t addr, uint64_t bytes,
		       struct cm_runs_cut *ret_cut);

/* Whether the block's row is in use, and the block belongs to the run. Does not read the state
 * of pinned memory, which another lock guards. */
static inline bool cm_runs_has_block(const struct cm_cache *cache, uint32_t run, uint32_t block)
{
	return block && cache->block[block].segment == run &&
	       cache->block[block].state != CM_BLOCK_NONE;
}

/* The last block of a run. `hint` is a block that was in it once, or 0; the nearer, the faster. */
uint32_t cm_runs_last_block(const struct cm_cache *cache, uint32_t run, uint32_t hint);

#endif
