/* SPDX-License-Identifier: MIT */
/*
 * Ready blocks for the slow path; adds segments and removes them. No function calls the driver. For
 * *_locked the caller holds the device's lock.
 */
#ifndef CM_ALLOCATOR_BLOCKS_HEAP_H
#define CM_ALLOCATOR_BLOCKS_HEAP_H

#include <stdint.h>

#include "allocator/state/state.h"

/*
 * Allocates a ready block for `bytes` rounded to `size`, or returns -ENOENT if none fits.
 */
int cm_heap_take_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr);

/* The same, without blocks that are spared (fragmentation.h). */
int cm_heap_take_unfragmenting_locked(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				      uint64_t *ret_addr);

/* As cm_heap_take_locked for a given block in the bins, if it is large enough. Makes no search; the
 * caller counts hit or miss. */
int cm_heap_take_block_locked(struct cm_heap *heap, uint32_t block, uint64_t size, uint64_t bytes,
			      enum cm_scalar source, uint64_t *ret_addr);

/*
 * Enters new memory of the driver as a segment of one free block, which is in no bin, as in a heap
 * that drains. -ENOSPC: no rows left, or no memory for the page map; nothing was changed, and the
 * caller keeps the memory. `flags`: CM_SEGMENT_SMALL, CM_SEGMENT_EXACT, CM_SEGMENT_DIRECT.
 */
int cm_heap_add_segment_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			       uint32_t flags, uint32_t *ret_block);

/* The same, and allocates its first `size` bytes. */
int cm_heap_take_new_locked(struct cm_heap *heap, uint64_t addr, uint64_t segment_size,
			    uint32_t flags, uint64_t size, uint64_t bytes);

/* The driver has just allocated this address. A block in use there, of whichever device, was freed
 * without our hooks, as a library can that they do not reach: retires its row as if it had been
 * freed here. Takes the lock of its device. */
void cm_heap_forget_lost(struct cm_cache *cache, uint64_t addr);

/* Takes a wholly free segment out of the counters and tables; the caller frees it in the driver.
 * The device's lock is held. */
void cm_heap_remove_segment_locked(struct cm_cache *cache, uint32_t segment);

/* Takes a segment's free blocks out of the bins: they are never allocated again. */
void cm_heap_unbin_segment_locked(struct cm_heap *heap, const struct cm_segment *segment);

#endif
