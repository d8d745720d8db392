/* SPDX-License-Identifier: MIT */
/*
 * The page-backed heap (expandable_segments): one reserved range of addresses for each pool of a
 * device, with pages mapped only where its contexts have blocks. A request that no ready block of
 * its context serves gets idle pages of another context of the device, as they lie, unless the card
 * is full; else it is placed where the fewest pages are missing, and the driver creates them. On a
 * card that fills up it is placed where it occupies the fewest pages (fragmentation.h). Then pages
 * that lie wholly in free blocks are moved there first, and the driver creates only the rest.
 * Pages that were created together may share a handle of the driver (paged_ready.h).
 *
 * A page is moved or returned only if no submitted work can still touch it: its block is free, so
 * its epoch is ready (even if it is not recycled), and the last ordered barrier has been passed.
 * On a card that fills up a request waits for the device, but not for long (paged_ready.h).
 *
 * One thread of a device at a time moves pages (cm_device.paging); that lock is taken after the
 * reclaim lock and before the cache's event lock and the device's lock, and held while the driver
 * is called.
 */
#ifndef CM_ALLOCATOR_PAGED_PAGED_H
#define CM_ALLOCATOR_PAGED_PAGED_H

#include <stdint.h>

#include "allocator/state/pages.h"

/*
 * Memory of the context for `bytes` rounded to `size`, by adding pages. -ENOENT: not possible, for
 * example since the driver refused a page: ask for a segment. -EAGAIN: the context is gone, or
 * caching has stopped in it. -EBUSY: a capture is active, and the caller is outside of the gate.
 * Other errors as cm_cache_alloc, or the driver's out of memory. The gate is entered, the event
 * lock and the device's lock are not held.
 */
int cm_paged_alloc(struct cm_heap *heap, uint64_t ctx, uint64_t size, uint64_t bytes,
		   uint64_t *ret_addr);

/* Returns all pages to the driver that lie wholly in free blocks and that no work can touch.
 * Returns the bytes. */
uint64_t cm_paged_release(struct cm_device *device);

/* The same, but only of wholly free runs that are not recycled. */
void cm_paged_release_unreclaimed(struct cm_device *device);

/*
 * Contiguous pages that lie wholly in free blocks and were last used at the same moment. Pages have
 * ticks of their own, since a free block's tick says little: a part of it may have been used and
 * freed again, and have merged with the rest.
 */
struct cm_paged_idle {
	struct cm_heap *heap;
	struct cm_paged *paged;
	uint32_t block;
	uint32_t page; /* the first one */
	uint32_t pages;
	uint64_t tick;
};

/* Calls `each` for all idle pages of the heap. The device's lock is held. */
void cm_paged_each_idle_locked(struct cm_heap *heap,
			       void (*each)(void *data, const struct cm_paged_idle *idle),
			       void *data);

/*
 * Returns `most` bytes of the pages that have been idle longest and that no work can touch, from
 * one such span: all of it if it has fewer, more if they end inside a handle. Returns the bytes, 0:
 * there are none.
 */
uint64_t cm_paged_release_idlest(struct cm_device *device, uint64_t most);

/* The context is being destroyed: its pages are in no run any more. The rows of its runs go next.
 * No driver call. The event lock and the device's lock are held. */
void cm_paged_forget_locked(struct cm_heap *heap);

/* Returns these pages to the driver after the context was destroyed, and the ranges of a device
 * that has no context left. */
void cm_paged_return_forgotten(struct cm_cache *cache);

/* Bytes of whole pages in a run that hold no block in use. The device's lock is held. */
uint64_t cm_paged_returnable_locked(struct cm_cache *cache, uint32_t run);

/* The devices of these bits (see cm_cache_open_to) reach the pages of the context's heap from now
 * on, present and future, and the present ones of the device's other contexts. 0 or the driver's
 * code. The gate need not be entered. */
int cm_paged_open_to(struct cm_heap *heap, uint64_t ctx, uint64_t ordinals);

#endif
