/* SPDX-License-Identifier: MIT */
#include "allocator/state/pages.h"

/*
 * Each handle costs four driver calls, and stays as long as a block lies on any part of it. So they
 * are large on a card with room, and small on a card without. Measured in docs/decisions/pages.md.
 */
#define HANDLES_MOST 128 /* of a request */
/* Fewer of them, if each has at most 4 pages for every 4 GiB of room: 1/512 of it. */
#define ROOM_PAGES 4
#define ROOM_STEP  (UINT64_C(512) * ROOM_PAGES * CM_PAGED_PAGE)

void cm_paged_note_use_locked(struct cm_paged *paged, uint64_t addr, uint64_t bytes, uint64_t tick)
{
	const uint32_t end = cm_paged_page_at(paged, addr + bytes + CM_PAGED_PAGE - 1);
	uint32_t at;

	for (at = cm_paged_page_at(paged, addr); at < end; at++)
		paged->page[at].tick = tick;
}

uint32_t cm_paged_handle_pages(uint32_t pages, uint64_t room)
{
	const uint32_t least = (pages + HANDLES_MOST - 1) / HANDLES_MOST;
	const uint64_t share = room / ROOM_STEP * ROOM_PAGES;

	return share < least ? least : share < pages ? (uint32_t)share : pages;
}

struct cm_paged_span cm_paged_whole_handles_locked(const struct cm_paged *paged,
						   const struct cm_segment *run, uint64_t from,
						   uint64_t end)
{
	const uint32_t low = cm_paged_page_at(paged, run->addr);
	const uint32_t high = cm_paged_page_at(paged, cm_paged_end_of(run));
	struct cm_paged_span pages = {cm_paged_page_at(paged, from + CM_PAGED_PAGE - 1), 0};
	uint32_t stop = cm_paged_page_at(paged, end);

	if (pages.first < stop && pages.first > low &&
	    paged->page[pages.first - 1].handle == paged->page[pages.first].handle)
		pages.first = cm_paged_handle_end(paged, pages.first, stop);
	if (pages.first < stop && stop < high &&
	    paged->page[stop].handle == paged->page[stop - 1].handle)
		stop = cm_paged_handle_start(paged, stop - 1, pages.first);
	pages.count = pages.first < stop ? stop - pages.first : 0;
	return pages;
}
