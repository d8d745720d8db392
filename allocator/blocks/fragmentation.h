/* SPDX-License-Identifier: MIT */
/*
 * How memory on pages is laid out where a card fills up. A block is spared where the request would
 * lie on more whole pages of it than need be: it gets another block, or a place for which pages are
 * moved, that shares one with blocks in use.
 *
 * A program that repeats itself would go on so for ever, and pay driver calls where ready memory
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
 * which nothing is spared, and lets poll_policy.h and whole.h know. */
void cm_fragmentation_note_reserved_locked(struct cm_heap *heap);

/* The driver had no `bytes`: the card is as large as what was reserved, and that. */
void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes);

/* Of a heap on pages whose device keeps up, where the card fills up: whether the driver is asked,
 * for freed memory or pages, before `size` bytes are cut off a free block of the large pool. */
CM_COLD bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
						 uint64_t size);

/* As cm_bins_find in the large pool, past those that are spared. */
uint32_t cm_fragmentation_find_locked(struct cm_heap *heap, uint64_t size);

/* Pages were moved for what was spared, or made. */
void cm_fragmentation_note_move_locked(struct cm_heap *heap);

/* Whether large requests go where they touch the fewest whole pages, of a heap on pages. */
bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap);

/* A block of the large pool that touches at most so many pages, the fewest of those that are soon
 * found; 0: none. What was spared is then allocated after all. */
uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most);

#endif
