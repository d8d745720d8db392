/* SPDX-License-Identifier: MIT */
/*
 * How memory is laid out where a card fills up. A segment that is wholly free can go back to the
 * driver for another one; once a piece of it is in use, what is left of it serves small requests
 * alone. So a large block that is all of its segment is spared where a small part of it would do,
 * and the request gets a segment of its own; on a card that has no room for that, idle segments go
 * back first. And segments for several blocks are as large as some number of these.
 *
 * Of memory on pages a block is spared where the request would lie on more whole pages of it than
 * need be: it gets another block, or a place for which pages are moved, that shares one with blocks
 * in use.
 *
 * A program that repeats itself would go on so for ever, and pay a driver call where ready memory
 * would have served. So what is done for it is limited, until the program has more in use than
 * ever.
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_FRAGMENTATION_H
#define CM_ALLOCATOR_BLOCKS_FRAGMENTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "stats/layout.h"

struct cm_heap;

/* A segment of the heap, or pages of one, have come or gone: sets heap->card_fills_up, without
 * which nothing is spared, and lets poll_policy.h know. */
void cm_fragmentation_note_reserved_locked(struct cm_heap *heap);

/* The driver had no `bytes`: the card is as large as what was reserved, and that. */
void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes);

/* Of a wary heap whose device keeps up: whether the driver is asked, for freed memory or a segment,
 * before `size` bytes are cut off a free block of the large pool. */
CM_COLD bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
						 uint64_t size);

/* As cm_bins_find in the large pool, past those that are spared. */
uint32_t cm_fragmentation_find_locked(struct cm_heap *heap, uint64_t size);

/* So many segments come or go for what was spared, or pages are moved so many times. */
void cm_fragmentation_spend_locked(struct cm_heap *heap, uint64_t segments);

/* Whether large requests go where they touch the fewest whole pages, of a heap on pages. */
bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap);

/* A block of the large pool that touches at most so many pages, the fewest of those that are soon
 * found; 0: none. What was spared is then allocated after all. */
uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most);

/* Nothing is spared until there is more in use than now: the device is not to be waited for. */
void cm_fragmentation_stop_locked(struct cm_heap *heap);

/* The segment that a miss of a rounded size asks the driver for, in place of cm_size_segment. */
uint64_t cm_fragmentation_segment_bytes_locked(const struct cm_heap *heap, uint64_t size);

#endif
