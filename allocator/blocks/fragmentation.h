/* SPDX-License-Identifier: MIT */
/*
 * How memory is laid out when a card fills up. A segment that is wholly free can return to the
 * driver in exchange for another one. Once a block of it is in use, that block pins the rest, which
 * then serves only small requests. So a split may pin at most a share of what the card has above
 * the program's peak. The share is small at first, and grows with what returns in exchange. If a
 * split would pin more, the request gets a segment of its own, and idle segments return for it
 * (exchange.h). A segment for several blocks that would pin much is made as large as a whole number
 * of these blocks.
 *
 * A program whose blocks grow, as a vector to whose end is added, needs in the end one block of
 * all that is left. So while the largest segment doubles within the last third of all requests, an
 * idle segment that is large for the card is not split, whatever it would pin.
 *
 * With pages, free pages stay where they are until the card fills up, since a page that is moved is
 * soon needed again in its old place. Then they are moved to where pages are missing, and a block
 * is spared if the request would touch more whole pages of it than necessary. The request gets
 * another block, or a place for which pages are moved, and shares a page with blocks in use.
 *
 * Pages may share a driver allocation, a handle, which returns as a whole. A request gets
 * few. It divides none that is more than a small part of it, or of the room that the card has left:
 * such a one is replaced first (paged_ready.h). A program that repeats its steps on a card with
 * room would do that for ever, and never need what it gains: it divides them.
 *
 * A program that repeats its steps would move pages for ever. So the number of moves for spared
 * blocks is limited, until the program has more in use than ever before.
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_FRAGMENTATION_H
#define CM_ALLOCATOR_BLOCKS_FRAGMENTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/state/pages.h"
#include "stats/layout.h"

/* A segment of the heap, or pages of one, were added or returned: sets heap->card_fills_up, informs
 * poll_policy.h, and sets heap->watches_splits: card_fills_up, or it has pages. Only heaps with
 * card_fills_up spare blocks. */
void cm_fragmentation_note_reserved_locked(struct cm_heap *heap);

/* The heap's large pool got a segment of `bytes` from the driver. Comes before the function above,
 * with the device's lock held. */
void cm_fragmentation_note_segment_locked(struct cm_heap *heap, uint64_t bytes);

/* Sets when the small pool's blocks merge, by what the function above has found. */
void cm_fragmentation_set_merging_locked(struct cm_heap *heap);

/* The driver refused `bytes`: the card is as large as what was reserved plus these. */
void cm_fragmentation_note_refusal_locked(struct cm_heap *heap, uint64_t bytes);

/* Whether the driver has refused as much beyond what is reserved, and nothing has returned
 * since. */
bool cm_fragmentation_is_refused_locked(const struct cm_heap *heap, uint64_t bytes);

/* Called if the heap watches splits: whether to poll, or to get a segment, before `size` bytes are
 * split off a free block of the large pool. */
CM_COLD bool cm_fragmentation_should_poll_locked(struct cm_heap *heap, const struct cm_block *block,
						 uint64_t size);

/* As cm_bins_find in the large pool, without the blocks that are spared, and those of which the
 * request would divide a handle. 0 also if the one that fits best is such a one. */
uint32_t cm_fragmentation_find_locked(struct cm_heap *heap, uint64_t size);

/* The most pages of a handle that is made for `size` bytes. */
uint32_t cm_fragmentation_handle_pages_locked(const struct cm_heap *heap, uint64_t size);

/* The handle that the end of `size` bytes would divide in a free block and may not, if it lies
 * wholly in the block; count 0: there is none. */
struct cm_paged_span cm_fragmentation_divided_locked(const struct cm_heap *heap,
						     const struct cm_block *block, uint64_t size);

/* Whether less than 1/32 of the card is not reserved. */
bool cm_fragmentation_is_full_locked(const struct cm_heap *heap);

/* Whether a request for pages waits until the device has passed the last barrier. */
bool cm_fragmentation_awaits_barrier_locked(const struct cm_heap *heap);

/* Whether `bytes` of missing pages are taken from free blocks before new ones are made. */
bool cm_fragmentation_moves_pages_locked(const struct cm_heap *heap, uint64_t bytes);

/* Pages were moved for a request because a block was spared. */
void cm_fragmentation_note_move_locked(struct cm_heap *heap);

/* Whether large requests of a heap on pages are placed so that they touch the fewest whole
 * pages. */
bool cm_fragmentation_packs_pages_locked(struct cm_heap *heap);

/* The block of the large pool that touches the fewest pages, of those that a short search finds,
 * and at most so many; 0: none. Spared blocks count, too. */
uint32_t cm_fragmentation_find_reserved_locked(struct cm_heap *heap, uint64_t size, uint64_t most);

/* How many bytes may be reserved before idle segments return, if blocks are not split: the most
 * that was ever in use, or is with `bytes` more, and a share of what the card has above that. */
uint64_t cm_fragmentation_unsplit_most_locked(const struct cm_heap *heap, uint64_t bytes);

/* Whether a block that is not split serves a request that leaves `rest` bytes of it unused: nothing
 * returns these to a card that is full. */
bool cm_fragmentation_unsplit_serves_locked(const struct cm_heap *heap, uint64_t rest);

/* The size of the segment that a miss of a rounded size requests from the driver, in place of
 * cm_size_segment. */
uint64_t cm_fragmentation_segment_bytes_locked(const struct cm_heap *heap, uint64_t size);

#endif
