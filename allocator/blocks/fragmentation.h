/* SPDX-License-Identifier: MIT */
/*
 * How memory is laid out when a card fills up. A segment that is wholly free can return to the
 * driver in exchange for another one. Once a piece of it is in use, that piece pins the rest, which
 * then serves small requests alone. So a cut may pin no more than a share of what the card has
 * above the program's peak. The share is small at first, and grows the longer the program goes on
 * without reserving more. If a cut would pin more, the request gets a segment of its own, and idle
 * ones return for it (exchange.h). If segments for several blocks would pin much, they are as large
 * as some number of these blocks.
 *
 * On pages, free ones stay where they are until the card fills up: a page that is taken away is
 * soon wanted back. Then they are moved to where pages are missing, and a block is spared if the
 * request would touch more whole pages of it than it has to. The request gets another block, or a
 * place for which pages are moved, and shares a page with blocks in use.
 *
 * A program that repeats its steps would move pages for ever. So the number of moves for what is
 * spared is limited, until the program has more in use than ever before.
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

/* A segment of the heap, or pages of one, were added or returned: sets heap->card_fills_up, without
 * which nothing is spared, and informs poll_policy.h. */
void cm_fragmentation_note_reserved_locked(struct cm_heap *heap);

/* The driver refused `bytes`: the card is as large as what was reserved plus these. */
void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes);

/* Called if the card fills up and the device keeps up: whether the driver is asked, for freed
 * memory or a segment, before `size` bytes are cut off a free block of the large pool. */
CM_COLD bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
						 uint64_t size);

/* As cm_bins_find in the large pool, without the blocks that are spared. */
uint32_t cm_fragmentation_find_locked(struct cm_heap *heap, uint64_t size);

/* Whether `bytes` of missing pages are taken from free blocks before new ones are made. */
bool cm_fragmentation_moves_pages_locked(const struct cm_heap *heap, uint64_t bytes);

/* Pages were moved for a request, as a block was spared. */
void cm_fragmentation_note_move_locked(struct cm_heap *heap);

/* Whether large requests of a heap on pages are placed so that they touch the fewest whole
 * pages. */
bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap);

/* The block of the large pool that touches the fewest pages, of those that a short search finds,
 * and at most so many; 0: none. Spared blocks count, too. */
uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most);

/* Spares no segment until more is in use than now: the request shall not wait for the device. */
void cm_fragmentation_stop_locked(struct cm_heap *heap);

/* The size of the segment that a miss of a rounded size requests from the driver, in place of
 * cm_size_segment. */
uint64_t cm_fragmentation_segment_bytes_locked(const struct cm_heap *heap, uint64_t size);

#endif
