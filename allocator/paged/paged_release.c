/* SPDX-License-Identifier: MIT */
/*
 * How the page-backed heap returns pages to the driver.
 */
#include <string.h>
#include <sys/mman.h>

#include "allocator/paged/paged.h"
#include "allocator/paged/paged_moves.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/rows.h"

#define PAGE CM_PAGED_PAGE
#define LOST CM_PAGED_LOST

/* --- what is idle ------------------------------------------------------------------------- */

/* The last use of a block on the handle that begins at *at. Moves *at behind the handle. */
static uint64_t tick_of_handle(const struct cm_paged *paged, uint32_t end, uint32_t *at)
{
	const uint32_t stop = cm_paged_handle_end(paged, *at, end);
	uint64_t tick = 0;

	for (; *at < stop; ++*at)
		if (tick < paged->page[*at].tick)
			tick = paged->page[*at].tick;
	return tick;
}

/* The spans of handles of equal ticks in a free block. */
static void each_idle_of(struct cm_heap *heap, struct cm_paged *paged, uint32_t index,
			 void (*each)(void *data, const struct cm_paged_idle *idle), void *data)
{
	const struct cm_paged_span pages = cm_paged_whole_pages_locked(
		heap->cache, paged, &heap->cache->block[index], UINT32_MAX);
	const uint32_t end = pages.first + pages.count;
	struct cm_paged_idle idle = {.heap = heap, .paged = paged, .block = index};
	uint32_t at = pages.first, next = at;
	uint64_t tick = at < end ? tick_of_handle(paged, end, &next) : 0;

	while (at < end) {
		idle.page = at;
		idle.tick = tick;
		for (at = next; at < end; at = next) {
			tick = tick_of_handle(paged, end, &next);
			if (tick != idle.tick)
				break;
		}
		idle.pages = at - idle.page;
		each(data, &idle);
	}
}

void cm_paged_each_idle_locked(struct cm_heap *heap,
			       void (*each)(void *data, const struct cm_paged_idle *idle),
			       void *data)
{
	const struct cm_cache *cache = heap->cache;
	enum cm_pool pool;
	uint32_t bin, index;

	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
		const struct cm_bins *bins = &heap->bins[pool];

		bin = heap->device->paged[pool]
			      ? cm_bins_next(bins, cm_bins_of(PAGE >> CM_GRAIN_SHIFT))
			      : CM_BINS_COUNT;
		for (; bin < CM_BINS_COUNT; bin = cm_bins_next(bins, bin + 1))
			for (index = bins->head[bin]; index; index = cache->block[index].link_next)
				if (cache->segment[cache->block[index].segment].flags &
				    CM_SEGMENT_PAGED)
					each_idle_of(heap, heap->device->paged[pool], index, each,
						     data);
	}
}

static void keep_older(void *data, const struct cm_paged_idle *idle)
{
	struct cm_paged_idle *oldest = data;

	if (!oldest->pages || idle->tick < oldest->tick)
		*oldest = *idle;
}

/* Makes the pages that have been idle longest stolen pages, from the end of their span. */
static void cut_idlest_event_locked(struct cm_device *device, uint32_t most,
				    struct cm_paged_stolen *stolen)
{
	struct cm_paged_idle oldest = {.pages = 0};
	struct cm_paged_span pages;
	struct cm_paged_heaps heaps;
	struct cm_heap *heap;
	uint32_t at = 0;

	cm_paged_find_idle_event_locked(device, &heaps);
	cm_lock_acquire(&device->lock);
	while ((heap = cm_device_next_heap(device, &at)))
		if (cm_paged_has_heap(&heaps, heap))
			cm_paged_each_idle_locked(heap, keep_older, &oldest);
	if (oldest.pages) {
		pages = (struct cm_paged_span){oldest.page, oldest.pages};
		cm_paged_keep_last(oldest.paged, &pages, most);
		(void)cm_paged_cut_locked(oldest.heap, oldest.paged, oldest.block, pages, stolen);
	}
	cm_lock_release(&device->lock);
}

/* --- giving it back ----------------------------------------------------------------------- */

/* The next free block of a run that holds whole pages: of one that is not recycled, all or none. */
static bool find_idle(struct cm_heap *heap, const struct cm_paged *paged, uint32_t run,
		      uint32_t *ret_block, struct cm_paged_span *ret_pages)
{
	struct cm_cache *cache = heap->cache;
	const bool whole = !cm_segment_is_recycled(cache, &cache->segment[run]);
	uint32_t index;

	if (whole && !cm_segment_is_free(&cache->segment[run]))
		return false;
	for (index = cache->segment[run].first; index; index = cache->block[index].next) {
		if (cache->block[index].state != CM_BLOCK_FREE)
			continue;
		*ret_pages = cm_paged_whole_pages_locked(cache, paged, &cache->block[index],
							 UINT32_MAX);
		*ret_block = index;
		if (ret_pages->count)
			return true;
	}
	return false;
}

/* Takes idle pages of a heap out of the tables until there are none or too many parts.
 * `unreclaimed`: only of runs that are not recycled. */
static void collect_locked(struct cm_heap *heap, bool unreclaimed, struct cm_paged_stolen *stolen)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, end = cm_rows_segments(cache), index;
	struct cm_paged *paged;
	struct cm_paged_span pages;

	for (s = 1; s < end; s++) {
		const struct cm_segment *run = &cache->segment[s];

		/* If a run is cut in two, one part may get a new row: it is met later in this walk,
		 * or at the next call. */
		while (cm_segment_is_of(run, heap->device) && run->flags & CM_SEGMENT_PAGED &&
		       run->heap == heap->index) {
			paged = heap->device->paged[cm_segment_pool(run)];
			if (!paged || (unreclaimed && cm_segment_is_recycled(cache, run)) ||
			    !find_idle(heap, paged, s, &index, &pages))
				break;
			if (!cm_paged_cut_locked(heap, paged, index, pages, stolen))
				return;
		}
	}
}

static uint64_t release_pages_of(struct cm_heap *heap, bool unreclaimed)
{
	struct cm_cache *cache = heap->cache;
	struct cm_paged_stolen stolen = {.parts = 0};
	uint64_t bytes = 0;

	do {
		cm_lock_acquire(&cache->event_lock);
		if (cm_fence_is_complete_event_locked(cm_heap_ordered(heap), heap->device) &&
		    !cm_heap_is_dead(heap)) {
			cm_lock_acquire(&heap->device->lock);
			collect_locked(heap, unreclaimed, &stolen);
			cm_lock_release(&heap->device->lock);
		}
		cm_lock_release(&cache->event_lock);
		if (!stolen.pages)
			return bytes;
		bytes += cm_paged_give_back(heap->device, &stolen);
		cm_cache_note_return(cache);
	} while (true);
}

static uint64_t release_pages(struct cm_device *device, bool unreclaimed)
{
	struct cm_heap *heap;
	uint64_t bytes = 0;
	uint32_t at = 0;

	if (!device->cache->policy.expandable_segments)
		return 0;
	cm_lock_acquire(&device->paging);
	atomic_fetch_add(&device->giving_pages, 1);
	while ((heap = cm_device_next_heap(device, &at)))
		bytes += release_pages_of(heap, unreclaimed);
	atomic_fetch_sub(&device->giving_pages, 1);
	cm_lock_release(&device->paging);
	return bytes;
}

uint64_t cm_paged_release(struct cm_device *device)
{
	return release_pages(device, false);
}

uint64_t cm_paged_release_idlest(struct cm_device *device, uint64_t most)
{
	struct cm_cache *cache = device->cache;
	struct cm_paged_stolen stolen = {.parts = 0};
	const uint64_t pages = most / PAGE;
	uint64_t bytes;

	if (!cache->policy.expandable_segments || !pages)
		return 0;
	cm_lock_acquire(&device->paging);
	atomic_fetch_add(&device->giving_pages, 1);
	cm_lock_acquire(&cache->event_lock);
	cut_idlest_event_locked(device, pages < UINT32_MAX ? (uint32_t)pages : UINT32_MAX, &stolen);
	cm_lock_release(&cache->event_lock);
	bytes = cm_paged_give_back(device, &stolen);
	cm_cache_note_return(cache);
	atomic_fetch_sub(&device->giving_pages, 1);
	cm_lock_release(&device->paging);
	return bytes;
}

void cm_paged_release_unreclaimed(struct cm_device *device)
{
	(void)release_pages(device, true);
}

uint64_t cm_paged_returnable_locked(struct cm_cache *cache, uint32_t run)
{
	const struct cm_segment *segment = &cache->segment[run];
	const struct cm_paged *paged =
		cm_segment_heap(cache, segment)->device->paged[cm_segment_pool(segment)];
	uint64_t from = 0, end, bytes = 0;
	const struct cm_block *block;
	uint32_t index = segment->first;

	do {
		block = index ? &cache->block[index] : NULL;
		if (block && block->state != CM_BLOCK_LIVE) {
			from = from ? from : block->addr;
		} else if (from) {
			end = block ? block->addr : cm_paged_end_of(segment);
			bytes += cm_paged_whole_handles_locked(paged, segment, from, end).count *
				 PAGE;
			from = 0;
		}
		index = block ? block->next : 0;
	} while (block);
	return bytes;
}

/* The pages of a run are in no run any more. */
static void forget_run_locked(struct cm_device *device, const struct cm_segment *run)
{
	struct cm_paged *paged = device->paged[cm_segment_pool(run)];
	const uint32_t end = cm_paged_page_at(paged, cm_paged_end_of(run));
	uint32_t at;

	/* In the middle a page may name a run that was joined to this one. */
	for (at = cm_paged_page_at(paged, run->addr); at < end; at++)
		paged->page[at].run = 0;
}

void cm_paged_forget_locked(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	struct cm_cache *cache = heap->cache;
	const uint32_t end = cm_rows_segments(cache);
	uint32_t s;

	if (!device->paged[CM_POOL_SMALL] && !device->paged[CM_POOL_LARGE])
		return;
	for (s = 1; s < end; s++)
		if (cm_segment_is_of(&cache->segment[s], device) &&
		    cache->segment[s].heap == heap->index &&
		    cache->segment[s].flags & CM_SEGMENT_PAGED)
			forget_run_locked(device, &cache->segment[s]);
	device->has_forgotten = true;
	cm_device_note_unreclaimed(device);
}

/* The pages of a range that are in no run: some, or all. No other thread moves pages. */
static void collect_forgotten(struct cm_device *device, struct cm_paged *paged,
			      struct cm_paged_stolen *pages)
{
	const struct cm_segment *segment = device->cache->segment;
	uint32_t at = 0, end;

	while (at < paged->top && pages->parts < CM_PAGED_PARTS) {
		if (paged->page[at].run) {
			at = cm_paged_page_at(paged,
					      cm_paged_end_of(&segment[paged->page[at].run]));
			continue;
		}
		end = cm_paged_handle_end(paged, at, paged->top);
		if (paged->page[at].handle && paged->page[at].handle != LOST) {
			pages->part[pages->parts].from = paged;
			pages->part[pages->parts++].pages = (struct cm_paged_span){at, end - at};
			pages->pages += end - at;
		}
		at = end;
	}
}

/* None while a context is ending: its work may run until the driver has destroyed it. If there are
 * none left, and no context of the device, the ranges go as well. */
static void take_forgotten(struct cm_device *device, struct cm_paged_stolen *ret_pages,
			   struct cm_paged *ret_ranges[CM_POOL_COUNT])
{
	struct cm_cache *cache = device->cache;
	enum cm_pool pool;
	uint32_t at = 0;
	bool ends;

	*ret_pages = (struct cm_paged_stolen){.parts = 0};
	cm_lock_acquire(&cache->event_lock);
	ends = cache->ending || atomic_load(&cache->suspended);
	cm_lock_acquire(&device->lock);
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
		if (device->has_forgotten && !ends && device->paged[pool])
			collect_forgotten(device, device->paged[pool], ret_pages);
	if (device->has_forgotten && ends) {
		cm_device_note_unreclaimed(device);
	} else if (device->has_forgotten && !ret_pages->pages) {
		device->has_forgotten = false;
		if (!cm_device_next_heap(device, &at)) {
			memcpy(ret_ranges, device->paged, sizeof(device->paged));
			memset(device->paged, 0, sizeof(device->paged));
		}
	}
	cm_lock_release(&device->lock);
	cm_lock_release(&cache->event_lock);
}

void cm_paged_return_range(struct cm_device *device, struct cm_paged *paged)
{
	bool all = true;
	uint32_t at, end;

	for (at = 0; at < paged->top; at = end) {
		end = cm_paged_handle_end(paged, at, paged->top);
		if (paged->page[at].handle)
			cm_paged_unmap(device, paged, (struct cm_paged_span){at, end - at});
		all &= paged->page[at].handle != LOST;
	}
	/* The addresses stay reserved if one of their pages is lost. */
	if (all)
		(void)device->cache->ops->range_free(paged->base, paged->bytes);
	(void)munmap(paged, cm_paged_table_bytes(paged->bytes));
}

static void return_forgotten(struct cm_device *device)
{
	struct cm_paged *ranges[CM_POOL_COUNT] = {NULL};
	struct cm_paged_stolen pages;
	enum cm_pool pool;
	bool more;

	cm_lock_acquire(&device->paging);
	do {
		take_forgotten(device, &pages, ranges);
		more = pages.parts != 0;
		if (cm_paged_give_back(device, &pages))
			cm_cache_note_return(device->cache);
	} while (more);
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
		if (ranges[pool])
			cm_paged_return_range(device, ranges[pool]);
	cm_lock_release(&device->paging);
}

void cm_paged_return_forgotten(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);

	for (i = 0; cache->policy.expandable_segments && i < n; i++)
		return_forgotten(cache->device[i]);
}
