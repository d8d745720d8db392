/* SPDX-License-Identifier: MIT */
/*
 * The ranges of addresses of the page-backed heap (paged.h), and what lower rooms have to know
 * about pages.
 */
#ifndef CM_ALLOCATOR_STATE_PAGES_H
#define CM_ALLOCATOR_STATE_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* The least that cuMemCreate gives on every card with these calls. */
#define CM_PAGED_PAGE (UINT64_C(2) << 20)

/* In place of a handle: the driver has refused to unmap the page, so nothing can be mapped there
 * any more. */
#define CM_PAGED_LOST UINT64_MAX

/* One reserved range of a device: the runs of all its contexts lie there, each is of one context.
 * Its pages are guarded by the paging lock, and their runs by the device's, too. */
struct cm_paged {
	uint64_t base;
	uint64_t bytes;
	uint32_t top; /* no page from here on was ever in a run */
	struct cm_paged_page {
		uint64_t handle; /* of the driver, 0: no page is mapped here. Pages side by side
				  * may share one; all of them are in one run then. */
		uint32_t run;    /* of the first and the last page of a run: its segment */
		uint32_t hint;   /* of the last page of a run: see cm_runs_last_block */
		uint64_t tick;   /* of a page in a run: when a block on it was last in use */
	} page[];
};

/* Pages in a row, by number. */
struct cm_paged_span {
	uint32_t first;
	uint32_t count;
};

static inline uint64_t cm_paged_addr_of(const struct cm_paged *paged, uint32_t page)
{
	return paged->base + page * CM_PAGED_PAGE;
}

static inline uint32_t cm_paged_page_at(const struct cm_paged *paged, uint64_t addr)
{
	return (uint32_t)((addr - paged->base) / CM_PAGED_PAGE);
}

static inline uint64_t cm_paged_end_of(const struct cm_segment *run)
{
	return run->addr + run->size;
}

/* Of free memory at [addr, addr + bytes), the whole pages on which its first `size` bytes lie. The
 * ones at its ends it shares with blocks in use. */
static inline uint64_t cm_paged_touched(uint64_t addr, uint64_t bytes, uint64_t size)
{
	const uint64_t first = (addr + CM_PAGED_PAGE - 1) / CM_PAGED_PAGE;
	const uint64_t end = (addr + bytes) / CM_PAGED_PAGE;
	const uint64_t stop = (addr + size + CM_PAGED_PAGE - 1) / CM_PAGED_PAGE;

	return first < end ? (stop < end ? stop : end) - first : 0;
}

/* The first page behind those of the handle at `at`, or behind the pages that have none; at most
 * `end`. With the device's lock alone `end` must be in the same run. */
static inline uint32_t cm_paged_handle_end(const struct cm_paged *paged, uint32_t at, uint32_t end)
{
	const uint64_t handle = paged->page[at].handle;

	do
		at++;
	while (at < end && paged->page[at].handle == handle);
	return at;
}

/* The first page of the handle at `at`; at least `low`. */
static inline uint32_t cm_paged_handle_start(const struct cm_paged *paged, uint32_t at,
					     uint32_t low)
{
	while (at > low && paged->page[at - 1].handle == paged->page[at].handle)
		at--;
	return at;
}

/* The pages in [from, end) of a run whose handles lie wholly there; count 0: none. */
struct cm_paged_span cm_paged_whole_handles_locked(const struct cm_paged *paged,
						   const struct cm_segment *run, uint64_t from,
						   uint64_t end);

/* The most pages of a handle that is created for a request of so many, and of one that it may
 * divide. `room`: bytes that the card has left, times the part of the card that they are. So
 * handles become smaller sooner than the room does. */
uint32_t cm_paged_handle_pages(uint32_t pages, uint64_t room);
uint32_t cm_paged_divided_pages(uint32_t pages, uint64_t room);

static inline uint32_t cm_paged_pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + CM_PAGED_PAGE - 1) / CM_PAGED_PAGE);
}

/* Whether the heap's memory is paged. */
static inline bool cm_paged_serves(const struct cm_heap *heap)
{
	return heap->cache->policy.expandable_segments && heap->can & CM_CAN_PAGES &&
	       !cm_heap_drains(heap);
}

/* The block at these addresses was in use until now, which is `tick` of the clock. The device's
 * lock is held. */
void cm_paged_note_use_locked(struct cm_paged *paged, uint64_t addr, uint64_t bytes, uint64_t tick);

#endif
