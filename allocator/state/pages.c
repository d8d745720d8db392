/* SPDX-License-Identifier: MIT */
#include "allocator/state/pages.h"

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
