/* SPDX-License-Identifier: MIT */
/*
 * Large blocks are left whole. A segment that is wholly free can go back to the driver, which makes
 * any other of it; once a piece is in use, the rest serves only what fits there. Where the rest is
 * large for the card, the program may end for lack of just that. So a block that is large for the
 * card serves what fills most of it, as one of `placement:exact` does, and is not cut.
 *
 * That costs a driver call where a piece would have served. It is saved where nothing is at stake:
 * half of the card was never reserved, and the program had as much in use before as the request
 * makes it. What repeats itself on a roomy card so comes to rest; what grows does not cut.
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_WHOLE_H
#define CM_ALLOCATOR_BLOCKS_WHOLE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/size_class.h"
#include "allocator/state/state.h"

/* Memory of the device has been reserved or given back: sets device->whole_bytes. */
void cm_whole_note_reserved_locked(struct cm_device *device);

/* Whether a block of more than device->whole_bytes, that may serve any size, is not cut for `size`
 * bytes. */
CM_COLD bool cm_whole_keeps_locked(const struct cm_device *device, uint64_t size);

/* Whether a block that is not cut serves `size` bytes: an eighth of them is wasted at most, beside
 * what the driver rounds to. */
static inline bool cm_whole_serves(const struct cm_block *block, uint64_t size)
{
	return block->size - size <= size / 8 + CM_SEGMENT_GRAIN;
}

#endif
