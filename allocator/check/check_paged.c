/* SPDX-License-Identifier: MIT */
/*
 * The part of the check that knows pages: every page below a run's address is mapped, none
 * elsewhere, the ends of each run name it, and no handle lies in two of them.
 */
#include "allocator/check/check.h"
#include "allocator/state/pages.h"

static bool is_mapped(const struct cm_paged_page *page)
{
	return page->handle && page->handle != CM_PAGED_LOST;
}

static bool check_run(const struct cm_heap *heap, const struct cm_paged *paged, enum cm_pool pool,
		      uint32_t at, uint32_t pages, const struct cm_why *why)
{
	const uint32_t s = paged->page[at].run;
	const struct cm_segment *run = &heap->cache->segment[s];

	if (s >= heap->cache->segments || !(run->flags & CM_SEGMENT_PAGED) ||
	    !cm_segment_is_of(run, heap->device) || cm_segment_pool(run) != pool ||
	    run->addr != paged->base + at * CM_PAGED_PAGE)
		return cm_why_set(why, "page %u of heap %u is not where segment %u begins", at,
				  heap->index, s);
	if (run->size % CM_PAGED_PAGE || run->size / CM_PAGED_PAGE > pages)
		return cm_why_set(why, "segment %u has %llu bytes, and %u pages", s,
				  (unsigned long long)run->size, pages);
	if (at && paged->page[at - 1].handle == paged->page[at].handle)
		return cm_why_set(why, "segment %u shares a handle with the one before it", s);
	if (paged->page[at + run->size / CM_PAGED_PAGE - 1].run != s)
		return cm_why_set(why, "the last page of segment %u is not its own", s);
	return true;
}

bool cm_check_paged(const struct cm_heap *heap, enum cm_pool pool, uint64_t bytes,
		    const struct cm_why *why)
{
	const struct cm_paged *paged = heap->device->paged[pool];
	uint32_t at = 0, end = 0;
	const struct cm_segment *run;
	uint64_t mapped = 0;

	while (paged && at < paged->top) {
		for (end = at; end < paged->top && is_mapped(&paged->page[end]); end++)
			;
		/* Runs that are not to be joined lie side by side, and pages of contexts that are
		 * gone. */
		while (at < end) {
			if (!paged->page[at].run && heap->device->has_forgotten) {
				at++;
				continue;
			}
			if (!check_run(heap, paged, pool, at, end - at, why))
				return false;
			run = &heap->cache->segment[paged->page[at].run];
			mapped += run->heap == heap->index ? run->size : 0;
			at += (uint32_t)(run->size / CM_PAGED_PAGE);
		}
		at = end + 1;
	}
	if (mapped != bytes)
		return cm_why_set(why, "heap %u: %llu bytes of pages are mapped, runs have %llu",
				  heap->index, (unsigned long long)mapped,
				  (unsigned long long)bytes);
	return true;
}
