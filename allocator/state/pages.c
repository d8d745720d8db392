/* SPDX-License-Identifier: MIT */
#include "allocator/state/pages.h"

/*
 * Each handle costs four driver calls, and stays as long as a block lies on any part of it. So a
 * request gets few, and divides small ones alone: others are replaced first. Measured in
 * docs/decisions/pages.md.
 */
#define HANDLES_MOST 8   /* of a request */
#define SINGLE_MOST  64  /* pages of a request that gets a handle for each */
#define DIVIDED_MOST 128 /* what the end of a request may divide is at most such a part of it */
/* Fewer and larger ones, if the room lets that: 4 pages for every 4 GiB of it, which is 1/512. Of
 * those that are divided, for every 2 GiB: 1/256. */
#define ROOM_PAGES   4
#define ROOM_NEW     (UINT64_C(512) * ROOM_PAGES * CM_PAGED_PAGE)
#define ROOM_DIVIDED (UINT64_C(256) * ROOM_PAGES * CM_PAGED_PAGE)

void cm_paged_note_use_locked(struct cm_paged *paged, uint64_t addr, uint64_t bytes, uint64_t tick)
{
	const uint32_t end = cm_paged_page_at(paged, addr + bytes + CM_PAGED_PAGE - 1);
	uint32_t at;

	for (at = cm_paged_page_at(paged, addr); at < end; at++)
		paged->page[at].tick = tick;
}

/* One of so many handles of a request, or more of it: ROOM_PAGES for so many steps of room. */
static uint32_t share_of(uint32_t pages, uint32_t handles, uint64_t steps)
{
	const uint32_t least = (pages + handles - 1) / handles;
	const uint64_t share = steps * ROOM_PAGES;

	return share < least ? least : share < pages ? (uint32_t)share : pages;
}

uint32_t cm_paged_handle_pages(uint32_t pages, uint64_t room)
{
	return share_of(pages, pages > SINGLE_MOST ? HANDLES_MOST : SINGLE_MOST, room / ROOM_NEW);
}

uint32_t cm_paged_divided_pages(uint32_t pages, uint64_t room)
{
	return share_of(pages, DIVIDED_MOST, room / ROOM_DIVIDED);
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
