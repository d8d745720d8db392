/* SPDX-License-Identifier: MIT */
#include "allocator/state/pages.h"

/*
 * Each handle costs four driver calls, and stays as long as a block lies on any part of it. So a
 * block keeps at most two handles beside its own memory: a 64th of the request that they were
 * created for. Measured in docs/decisions/pages.md.
 */
#define HANDLES_MAX 128

bool cm_paged_serves(const struct cm_heap *heap)
{
	return heap->cache->policy.expandable_segments && heap->can & CM_CAN_PAGES &&
	       !cm_heap_drains(heap);
}

void cm_paged_note_use_locked(struct cm_paged *paged, uint64_t addr, uint64_t bytes, uint64_t tick)
{
	const uint32_t end = cm_paged_page_at(paged, addr + bytes + CM_PAGED_PAGE - 1);
	uint32_t at;

	for (at = cm_paged_page_at(paged, addr); at < end; at++)
		paged->page[at].tick = tick;
}

uint32_t cm_paged_handle_pages(uint32_t pages)
{
	return (pages + HANDLES_MAX - 1) / HANDLES_MAX;
}
