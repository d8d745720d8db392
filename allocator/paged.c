/* SPDX-License-Identifier: MIT */
#include "allocator/paged.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/fence.h"
#include "allocator/heap.h"
#include "allocator/paged_moves.h"
#include "allocator/runs.h"
#include "allocator/size_class.h"
#include "stats/sparse.h"

#define PAGE CM_PAGED_PAGE
/* Addresses are plenty: gaps that nothing fits may stay gaps. */
#define RANGE_SHARE 4
#define RANGE_LEAST (UINT64_C(64) << 30)
/* A request goes another way where others take each time what was mapped for it. */
#define TRIES 3

/* Where a request is to lie: the missing pages, and the runs that they touch. */
struct place {
	struct cm_paged_span pages;
	uint32_t left;
	uint32_t right;
};

static uint32_t pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + PAGE - 1) / PAGE);
}

static uint32_t total_pages(const struct cm_paged *paged)
{
	return (uint32_t)(paged->bytes / PAGE);
}

bool cm_paged_serves(const struct cm_heap *heap)
{
	return heap->cache->policy.expandable_segments && heap->can & CM_CAN_PAGES &&
	       !(cm_heap_flags(heap) & CM_HEAP_DRAINING);
}

/* A range of addresses and its table, of which only what is used takes memory. NULL: none. */
static struct cm_paged *reserve(struct cm_heap *heap)
{
	uint64_t bytes = heap->device->row->total_bytes * RANGE_SHARE;
	struct cm_paged *paged;

	if (bytes < RANGE_LEAST)
		bytes = RANGE_LEAST;
	bytes = bytes / PAGE * PAGE;
	paged = cm_sparse_map(cm_paged_table_bytes(bytes), MAP_PRIVATE | MAP_ANONYMOUS, -1);
	if (!paged)
		return NULL;
	paged->bytes = bytes;
	if (heap->cache->ops->range_reserve(bytes, &paged->base)) {
		(void)munmap(paged, cm_paged_table_bytes(bytes));
		return NULL;
	}
	return paged;
}

/*
 * The heap's range; `fresh`, where it is not NULL and there is none, becomes it. False: the context
 * has gone, and the heap is nobody's or another's.
 */
static bool find_range(struct cm_heap *heap, uint64_t ctx, uint32_t fit, struct cm_paged *fresh,
		       struct cm_paged **ret_paged)
{
	bool stands;

	cm_lock_acquire(&heap->device->lock);
	stands = ctx && heap->ctx == ctx;
	if (stands && fresh)
		heap->paged[fit] = fresh;
	if (stands)
		*ret_paged = heap->paged[fit];
	cm_lock_release(&heap->device->lock);
	return stands;
}

/* The same, reserved where there is none. -EAGAIN: the context has gone; -ENOENT: none can be had. */
static int range_of(struct cm_heap *heap, uint64_t ctx, uint32_t fit, struct cm_paged **ret_paged)
{
	struct cm_paged *fresh;

	if (!find_range(heap, ctx, fit, NULL, ret_paged))
		return -EAGAIN;
	if (*ret_paged)
		return 0;
	fresh = reserve(heap);
	if (!fresh)
		return -ENOENT;
	if (find_range(heap, ctx, fit, fresh, ret_paged))
		return 0;
	cm_paged_return_range(heap->cache->ops, fresh);
	return -EAGAIN;
}

/* --- where -------------------------------------------------------------------------------- */

/* The run whose first page this is, 0: the page is in none, and lost or about to be unmapped. */
static uint32_t run_at(const struct cm_paged *paged, uint32_t page)
{
	return paged->page[page].run;
}

/* The run, or 0 where it may not be joined: its memory is not handed out again. */
static uint32_t joinable(struct cm_cache *cache, uint32_t run)
{
	return run && cm_segment_is_recycled(cache, &cache->segment[run]) ? run : 0;
}

/* The last block of a run, or its first one; 0: of none. */
static uint32_t tail_of(struct cm_heap *heap, struct cm_paged *paged, uint32_t run)
{
	struct cm_paged_page *last;

	if (!run)
		return 0;
	last = &paged->page[cm_paged_page_at(paged, cm_paged_end_of(&heap->cache->segment[run])) -
			    1];
	last->hint = cm_runs_last_block(heap->cache, run, last->hint);
	return last->hint;
}

static uint32_t head_of(struct cm_heap *heap, uint32_t run)
{
	return run ? heap->cache->segment[run].first : 0;
}

/* The same where it is free, else 0. */
static uint32_t free_tail(struct cm_heap *heap, struct cm_paged *paged, uint32_t run)
{
	const uint32_t tail = tail_of(heap, paged, run);

	return heap->cache->block[tail].state == CM_BLOCK_FREE ? tail : 0;
}

static uint32_t free_head(struct cm_heap *heap, uint32_t run)
{
	const uint32_t head = head_of(heap, run);

	return heap->cache->block[head].state == CM_BLOCK_FREE ? head : 0;
}

/* How `size` bytes fit a gap and the free ends around it; false: they don't. */
static bool fit_gap(struct cm_heap *heap, struct cm_paged *paged, struct cm_paged_span gap,
		    uint32_t left, uint32_t right, uint64_t size, struct place *ret_place)
{
	const struct cm_block *block = heap->cache->block; /* row 0 has no bytes */
	const uint64_t tail = block[free_tail(heap, paged, left)].size;
	const uint64_t head = block[free_head(heap, right)].size;
	const uint32_t end = gap.first + gap.count;
	const uint32_t behind = pages_of(size > tail ? size - tail : 1);
	const uint32_t before = pages_of(size > head ? size - head : 1);

	if (behind <= gap.count && (behind <= before || !right))
		ret_place->pages = (struct cm_paged_span){gap.first, behind};
	else if (before <= gap.count && right)
		ret_place->pages = (struct cm_paged_span){end - before, before};
	else if (tail + gap.count * PAGE + head >= size)
		ret_place->pages = gap;
	else
		return false;
	ret_place->left = ret_place->pages.first == gap.first ? left : 0;
	ret_place->right = ret_place->pages.first + ret_place->pages.count == end ? right : 0;
	return true;
}

/* The place that misses the fewest pages, the lowest of equals. */
static bool choose_locked(struct cm_heap *heap, struct cm_paged *paged, uint64_t size,
			  struct place *ret_place)
{
	uint32_t at = 0, left = 0, right;
	struct place place;
	struct cm_paged_span gap;
	bool found = false;

	if (!cm_paged_is_standing_locked(heap, paged))
		return false;
	for (;;) {
		for (gap.first = at; at < paged->top && !paged->page[at].handle; at++)
			;
		right = at < paged->top ? joinable(heap->cache, run_at(paged, at)) : 0;
		gap.count = (at < paged->top ? at : total_pages(paged)) - gap.first;
		if (gap.count && fit_gap(heap, paged, gap, left, right, size, &place) &&
		    (!found || place.pages.count < ret_place->pages.count)) {
			*ret_place = place;
			found = true;
		}
		if (at >= paged->top)
			return found;
		left = right;
		at = run_at(paged, at)
			     ? cm_paged_page_at(
				       paged,
				       cm_paged_end_of(&heap->cache->segment[run_at(paged, at)]))
			     : at + 1;
	}
}

static bool choose(struct cm_heap *heap, struct cm_paged *paged, uint64_t size,
		   struct place *ret_place)
{
	bool found;

	cm_lock_acquire(&heap->device->lock);
	found = choose_locked(heap, paged, size, ret_place);
	cm_lock_release(&heap->device->lock);
	return found;
}

/* --- from where --------------------------------------------------------------------------- */

/*
 * Pages from the largest free blocks of a pool, down to those that hold no whole page. The free ends
 * at which the request is to lie stay.
 */
static void rob_pool(struct cm_heap *heap, struct cm_paged *growing, uint32_t fit,
		     const struct place *place, struct cm_paged_victims *victims)
{
	const uint32_t tail = free_tail(heap, growing, place->left);
	const uint32_t head = free_head(heap, place->right), want = place->pages.count;
	uint32_t aside[CM_PAGED_PARTS], n = 0, index;
	struct cm_paged *paged = heap->paged[fit];
	const struct cm_block *block = heap->cache->block;
	struct cm_paged_span pages;

	while (paged && victims->pages < want && n < CM_PAGED_PARTS) {
		index = cm_bins_largest(&heap->bins[fit]);
		if (!index || block[index].size < PAGE)
			break;
		pages = (struct cm_paged_span){0, 0};
		if (index != tail && index != head &&
		    heap->cache->segment[block[index].segment].flags & CM_SEGMENT_PAGED)
			pages = cm_paged_whole_pages(paged, &block[index], want - victims->pages);
		if (!pages.count) {
			cm_bins_remove(&heap->bins[fit], index);
			aside[n++] = index;
		} else if (!cm_paged_cut_locked(heap, paged, index, pages, victims)) {
			break;
		}
	}
	while (n)
		cm_bins_insert(&heap->bins[fit], aside[--n]);
}

/* Pages that no work can touch, up to those that the place lacks; none where a barrier is still on its way. */
static void rob(struct cm_heap *heap, struct cm_paged *paged, const struct place *place,
		struct cm_paged_victims *victims)
{
	struct cm_cache *cache = heap->cache;
	uint32_t fit;

	/* The turn: what gets ready behind a new barrier is not idle. */
	cm_lock_acquire(&cache->turn);
	if (cm_fence_is_complete_turned(&heap->ordered)) {
		cm_lock_acquire(&heap->device->lock);
		if (cm_paged_is_standing_locked(heap, paged))
			for (fit = 0; fit < CM_FIT_COUNT; fit++)
				rob_pool(heap, paged, fit, place, victims);
		cm_lock_release(&heap->device->lock);
	}
	cm_lock_release(&cache->turn);
}

/* --- growing ------------------------------------------------------------------------------ */

/* Enters what was mapped. -EAGAIN: the context has gone, or caching has stopped meanwhile. */
static int enter_locked(struct cm_heap *heap, struct cm_paged *paged, const struct place *place)
{
	const uint32_t flags = paged == heap->paged[CM_FIT_SMALL] ? CM_SEGMENT_SMALL : 0;
	struct cm_cache *cache = heap->cache;
	uint64_t addr = cm_paged_addr_of(paged, place->pages.first),
		 bytes = place->pages.count * PAGE;
	uint32_t block, end = place->pages.first + place->pages.count;
	int err;

	if (!cm_paged_is_standing_locked(heap, paged) || cm_heap_flags(heap) & CM_HEAP_DRAINING)
		return -EAGAIN;
	cm_lock_acquire(&cache->tables);
	err = cm_page_map_add(&cache->pages, addr, bytes, heap->device->index);
	cm_lock_release(&cache->tables);
	if (err)
		return -ENOSPC;
	/* A run may have been shown to others since the place was chosen. */
	err = cm_runs_add_locked(heap, flags, addr, bytes,
				 tail_of(heap, paged, joinable(cache, place->left)),
				 head_of(heap, joinable(cache, place->right)), &block);
	if (err)
		return err;
	if (paged->top < end)
		paged->top = end;
	cm_paged_tag_run_locked(heap, paged, block);
	cm_paged_note_use_locked(paged, addr, bytes, cm_ops_tick(cache->ops));
	return 0;
}

/* Adds pages where `size` bytes lack the fewest, and hands them out. -EBUSY: others were faster. */
static int grow(struct cm_heap *heap, struct cm_paged *paged, uint64_t size, uint64_t bytes,
		uint64_t *ret_addr)
{
	const uint64_t start = heap->cache->ops->now_ns();
	struct cm_paged_victims victims = {.parts = 0};
	struct place place;
	int err;

	if (!choose(heap, paged, size, &place))
		return -ENOENT;
	rob(heap, paged, &place, &victims);
	/* What was cut may have been one run with what the place is to be joined with. */
	err = choose(heap, paged, size, &place) ? cm_paged_map(heap, paged, place.pages, &victims)
						: -ENOENT;
	(void)cm_paged_give_back(heap->cache->ops, &victims);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns,
			(int64_t)(heap->cache->ops->now_ns() - start));
	if (err)
		return err;
	cm_lock_acquire(&heap->device->lock);
	err = enter_locked(heap, paged, &place);
	if (!err && cm_heap_take_grown_locked(heap, size, bytes, ret_addr))
		err = -EBUSY;
	cm_lock_release(&heap->device->lock);
	if (err && err != -EBUSY)
		cm_paged_unmap(heap->cache->ops, paged, place.pages);
	return err;
}

int cm_paged_alloc(struct cm_heap *heap, uint64_t ctx, uint64_t size, uint64_t bytes,
		   uint64_t *ret_addr)
{
	const uint32_t fit = size <= CM_SMALL_MAX ? CM_FIT_SMALL : CM_FIT_LARGE;
	struct cm_device *device = heap->device;
	struct cm_paged *paged = NULL;
	int err, tries = TRIES;

	cm_lock_acquire(&device->paging);
	err = range_of(heap, ctx, fit, &paged);
	while (!err && tries--) {
		err = grow(heap, paged, size, bytes, ret_addr);
		if (err != -EBUSY)
			break;
		err = tries ? 0 : -ENOENT;
	}
	cm_lock_release(&device->paging);
	/* What the driver has against a page is not its answer to the program: asked for a segment,
	 * it gives what it has, or says what the program would have heard. */
	return err > 0 && err != CM_DRIVER_OUT_OF_MEMORY ? -ENOENT : err;
}
