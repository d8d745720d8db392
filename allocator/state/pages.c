/* SPDX-License-Identifier: MIT */
#include "allocator/state/pages.h"

/*
 * Each handle costs four driver calls, and stays as long as a block lies on any part of it. So a
 * request gets few, and divides small ones alone: others are replaced first. Measured in
 * docs/decisions/pages.md.
 */
#define HANDLES_MOST 8   /* of a request */
#define DIVIDED_MOST 128 /* what the end of a request may divide is such a part of it, or less */
/* Fewer and larger ones, if the card has room: such a part of the room. */
#define ROOM_NEW     192
#define ROOM_DIVIDED 128

void cm_paged_note_use_locked(struct cm_paged *paged, uint64_t addr, uint64_t bytes, uint64_t tick)
{
	const uint32_t end = cm_paged_page_at(paged, addr + bytes + CM_PAGED_PAGE - 1);
	uint32_t at;

	for (at = cm_paged_page_at(paged, addr); at < end; at++)
		paged->page[at].tick = tick;
}

/* A part of the request, or of the room if that is more. */
static uint32_t part_of(uint32_t pages, uint32_t parts, uint64_t room, uint32_t room_parts)
{
	const uint32_t least = (pages + parts - 1) / parts;
	const uint64_t share = room / CM_PAGED_PAGE / room_parts;

	return share > least ? (uint32_t)share : least;
}

uint32_t cm_paged_handle_pages(uint32_t pages, uint64_t room)
{
	return part_of(pages, HANDLES_MOST, room, ROOM_NEW);
}

uint32_t cm_paged_divided_pages(uint32_t pages, uint64_t room)
{
	return part_of(pages, DIVIDED_MOST, room, ROOM_DIVIDED);
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
