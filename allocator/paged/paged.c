/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/heap.h"
#include "allocator/paged/paged_moves.h"
#include "allocator/paged/runs.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/report.h"
#include "allocator/state/state.h"
#include "stats/sparse.h"

#define PAGE CM_PAGED_PAGE
/* There are plenty of addresses: gaps that fit nothing may stay. */
#define RANGE_SHARE 4
#define RANGE_LEAST (UINT64_C(64) << 30)
/* After so many attempts in which other threads took what was mapped for it, a request is served by
 * a segment. */
#define TRIES 3

/* A row of missing pages, and the runs at its ends. */
struct gap {
	struct cm_paged_span pages;
	uint32_t left; /* runs, 0: none, or none that may be joined */
	uint32_t right;
	uint64_t tail; /* bytes of the free blocks at their ends */
	uint64_t head;
};

/* The place for a request: the missing pages, and the runs that they touch. */
struct place {
	struct cm_paged_span pages;
	uint32_t left;
	uint32_t right;
	uint64_t touched; /* pages on which no block in use lies, the missing ones among them */
};

static uint32_t pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + PAGE - 1) / PAGE);
}

static uint32_t total_pages(const struct cm_paged *paged)
{
	return (uint32_t)(paged->bytes / PAGE);
}

/* A range of addresses and its table, which takes memory only as far as it is used. NULL: none. */
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
 * The heap's range. If there is none, `fresh` becomes it, unless it is NULL. False: the context is
 * gone, and the heap is unused or another context's.
 */
static bool find_range(struct cm_heap *heap, uint64_t ctx, enum cm_pool pool,
		       struct cm_paged *fresh, struct cm_paged **ret_paged)
{
	bool stands;

	cm_lock_acquire(&heap->device->lock);
	stands = ctx && heap->ctx == ctx;
	if (stands && fresh)
		heap->paged[pool] = fresh;
	if (stands)
		*ret_paged = heap->paged[pool];
	cm_lock_release(&heap->device->lock);
	return stands;
}

/* The same; reserves a range if there is none. -EAGAIN: the context is gone; -ENOENT: no range can
 * be reserved. */
static int find_or_reserve(struct cm_heap *heap, uint64_t ctx, enum cm_pool pool,
			   struct cm_paged **ret_paged)
{
	struct cm_paged *fresh;

	if (!find_range(heap, ctx, pool, NULL, ret_paged))
		return -EAGAIN;
	if (*ret_paged)
		return 0;
	fresh = reserve(heap);
	if (!fresh)
		return -ENOENT;
	if (find_range(heap, ctx, pool, fresh, ret_paged))
		return 0;
	cm_paged_return_range(heap->device, fresh);
	return -EAGAIN;
}

/* --- where -------------------------------------------------------------------------------- */

/* The run whose first page this is, 0: the page is in none, and lost or about to be unmapped. */
static uint32_t run_at(const struct cm_paged *paged, uint32_t page)
{
	return paged->page[page].run;
}

/* The run, or 0 if nothing may be joined to it, as its memory is not allocated again. */
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

/* The same if it is free, else 0. */
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

/* Keeps the better one of two places: the one that touches the fewest pages if that counts, else
 * the one that lacks the fewest; the first one if they are equal. */
static void consider(const struct cm_paged *paged, const struct gap *gap,
		     struct cm_paged_span pages, uint64_t size, bool packed, struct place *best)
{
	const uint32_t end = pages.first + pages.count;
	const bool joins_left = pages.first == gap->pages.first;
	const bool joins_right = end == gap->pages.first + gap->pages.count;
	const uint64_t tail = joins_left ? gap->tail : 0, head = joins_right ? gap->head : 0;
	const struct place place = {
		.pages = pages,
		.left = joins_left ? gap->left : 0,
		.right = joins_right ? gap->right : 0,
		.touched = cm_paged_touched(cm_paged_addr_of(paged, pages.first) - tail,
					    tail + pages.count * PAGE + head, size),
	};

	if (best->pages.count && packed && place.touched != best->touched) {
		if (place.touched < best->touched)
			*best = place;
	} else if (!best->pages.count || pages.count < best->pages.count) {
		*best = place;
	}
}

/* How `size` bytes fit a gap and the free ends around it, if they do. */
static void fit_gap(const struct cm_paged *paged, const struct gap *gap, uint64_t size, bool packed,
		    struct place *best)
{
	const uint32_t first = gap->pages.first, count = gap->pages.count;
	const uint32_t behind = pages_of(size > gap->tail ? size - gap->tail : 1);
	const uint32_t before = pages_of(size > gap->head ? size - gap->head : 1);

	if (behind <= count)
		consider(paged, gap, (struct cm_paged_span){first, behind}, size, packed, best);
	else if (gap->tail + count * PAGE + gap->head >= size)
		consider(paged, gap, gap->pages, size, packed, best);
	if (before <= count && gap->right)
		consider(paged, gap, (struct cm_paged_span){first + count - before, before}, size,
			 packed, best);
}

/* The best place for `size` bytes, see consider. */
static bool choose_locked(struct cm_heap *heap, struct cm_paged *paged, uint64_t size, bool packed,
			  struct place *ret_place)
{
	const struct cm_block *block = heap->cache->block; /* row 0 has no bytes */
	struct gap gap = {.left = 0};
	uint32_t at = 0;

	*ret_place = (struct place){.left = 0};
	/* The pages of a request that is larger than the range may not be counted in 32 bits. */
	if (!cm_paged_is_standing_locked(heap, paged) || size > paged->bytes)
		return false;
	for (;;) {
		for (gap.pages.first = at; at < paged->top && !paged->page[at].handle; at++)
			;
		gap.right = at < paged->top ? joinable(heap->cache, run_at(paged, at)) : 0;
		gap.pages.count = (at < paged->top ? at : total_pages(paged)) - gap.pages.first;
		if (gap.pages.count) {
			gap.tail = block[free_tail(heap, paged, gap.left)].size;
			gap.head = block[free_head(heap, gap.right)].size;
			fit_gap(paged, &gap, size, packed, ret_place);
		}
		if (at >= paged->top)
			return ret_place->pages.count != 0;
		gap.left = gap.right;
		at = run_at(paged, at)
			     ? cm_paged_page_at(
				       paged,
				       cm_paged_end_of(&heap->cache->segment[run_at(paged, at)]))
			     : at + 1;
	}
}

static bool choose_place(struct cm_heap *heap, struct cm_paged *paged, uint64_t size, bool packed,
			 struct place *ret_place)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    choose_locked(heap, paged, size, packed, ret_place));
}

/* --- from where --------------------------------------------------------------------------- */

/*
 * Pages from the largest free blocks of a pool, down to those that hold no whole page. The free
 * ends at which the request is to lie stay.
 */
static void steal_from_pool(struct cm_heap *heap, struct cm_paged *growing, enum cm_pool pool,
			    const struct place *place, struct cm_paged_stolen *stolen)
{
	const uint32_t tail = free_tail(heap, growing, place->left);
	const uint32_t head = free_head(heap, place->right), want = place->pages.count;
	uint32_t aside[CM_PAGED_PARTS], n = 0, index;
	struct cm_paged *paged = heap->paged[pool];
	const struct cm_block *block = heap->cache->block;
	struct cm_paged_span pages;

	while (paged && stolen->pages < want && n < CM_PAGED_PARTS) {
		index = cm_bins_largest(&heap->bins[pool]);
		if (!index || block[index].size < PAGE)
			break;
		pages = (struct cm_paged_span){0, 0};
		if (index != tail && index != head &&
		    heap->cache->segment[block[index].segment].flags & CM_SEGMENT_PAGED)
			pages = cm_paged_whole_pages_locked(heap->cache, paged, &block[index],
							    want - stolen->pages);
		if (!pages.count) {
			cm_bins_remove(&heap->bins[pool], index);
			aside[n++] = index;
		} else if (!cm_paged_cut_locked(heap, paged, index, pages, stolen)) {
			break;
		}
	}
	while (n)
		cm_bins_insert(&heap->bins[pool], aside[--n]);
}

/* Pages that no work can touch, up to the number that the place lacks; none while a barrier has not
 * been passed. */
static void steal(struct cm_heap *heap, struct cm_paged *paged, const struct place *place,
		  struct cm_paged_stolen *stolen)
{
	struct cm_cache *cache = heap->cache;
	enum cm_pool pool;

	/* The event lock: what becomes ready behind a new barrier is not idle. */
	cm_lock_acquire(&cache->event_lock);
	if (cm_fence_is_complete_event_locked(cm_heap_ordered(heap), heap->device)) {
		cm_lock_acquire(&heap->device->lock);
		if (cm_paged_is_standing_locked(heap, paged))
			for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
				steal_from_pool(heap, paged, pool, place, stolen);
		cm_lock_release(&heap->device->lock);
	}
	cm_lock_release(&cache->event_lock);
}

/* --- growing ------------------------------------------------------------------------------ */

/* Enters the mapped pages; *ret_block is the free block that contains them. -EAGAIN: meanwhile the
 * context was destroyed, or caching has stopped. */
static int enter_pages_locked(struct cm_heap *heap, struct cm_paged *paged,
			      const struct place *place, uint32_t *ret_block)
{
	const uint32_t flags = paged == heap->paged[CM_POOL_SMALL] ? CM_SEGMENT_SMALL : 0;
	struct cm_cache *cache = heap->cache;
	uint64_t addr = cm_paged_addr_of(paged, place->pages.first),
		 bytes = place->pages.count * PAGE;
	uint32_t end = place->pages.first + place->pages.count;
	int err;

	if (!cm_paged_is_standing_locked(heap, paged) || cm_heap_drains(heap))
		return -EAGAIN;
	cm_lock_acquire(&cache->tables);
	err = cm_page_map_add(&cache->pages, addr, bytes, heap->device->index, flags);
	cm_lock_release(&cache->tables);
	if (err)
		return -ENOSPC;
	/* A run may have become visible to others since the place was chosen. */
	err = cm_runs_add_locked(heap, flags, addr, bytes,
				 tail_of(heap, paged, joinable(cache, place->left)),
				 head_of(heap, joinable(cache, place->right)), ret_block);
	if (err) {
		cm_lock_acquire(&cache->tables);
		cm_page_map_remove(&cache->pages, addr, bytes);
		cm_lock_release(&cache->tables);
		return err;
	}
	if (paged->top < end)
		paged->top = end;
	cm_paged_tag_run_locked(heap, paged, *ret_block);
	cm_paged_note_use_locked(paged, addr, bytes, cm_cache_tick(cache));
	return 0;
}

/* Whether the place gets pages that stand idle elsewhere, as far as there are any. */
static bool moves_pages(struct cm_heap *heap, const struct place *place)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    cm_fragmentation_moves_pages_locked(heap, place->pages.count * PAGE));
}

static bool is_to_be_packed(struct cm_heap *heap, uint64_t size)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    size > CM_SMALL_MAX && cm_fragmentation_packs_pages_locked(heap));
}

/* A spared ready block, if it touches at most so many pages. */
static int take_spared(struct cm_heap *heap, const struct cm_paged *paged, uint64_t size,
		       uint64_t bytes, uint64_t most, uint64_t *ret_addr)
{
	uint32_t block = 0;
	int err;

	cm_lock_acquire(&heap->device->lock);
	if (cm_paged_is_standing_locked(heap, paged))
		block = cm_fragmentation_find_reserved_locked(heap, size, most);
	err = cm_heap_take_block_locked(heap, block, size, bytes, CM_SCALAR_cache_hits, ret_addr);
	cm_lock_release(&heap->device->lock);
	return err;
}

/* Allocates from the mapped pages. -EBUSY: another thread was faster. */
static int take_mapped(struct cm_heap *heap, struct cm_paged *paged, const struct place *place,
		       uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	uint32_t block;
	int err;

	cm_lock_acquire(&heap->device->lock);
	err = enter_pages_locked(heap, paged, place, &block);
	if (!err &&
	    cm_heap_take_block_locked(heap, block, size, bytes, CM_SCALAR_cache_misses, ret_addr) &&
	    cm_heap_take_locked(heap, size, bytes, ret_addr))
		err = -EBUSY;
	cm_lock_release(&heap->device->lock);
	return err;
}

/* Tells the heap of the result: what was done, and whether the card is full. */
static void note_outcome(struct cm_heap *heap, const struct place *place, bool packed, int err)
{
	cm_lock_acquire(&heap->device->lock);
	if (packed)
		cm_fragmentation_note_move_locked(heap);
	if (err == CM_DRIVER_OUT_OF_MEMORY)
		cm_fragmentation_note_refusal_locked(heap, place->pages.count * PAGE);
	cm_lock_release(&heap->device->lock);
}

/* Adds pages at the place where `size` bytes lack the fewest, and allocates them. On a card that
 * fills up, at the place where they touch the fewest, unless a ready block has such a place.
 * -EBUSY: another thread was faster. */
static int add_pages(struct cm_heap *heap, struct cm_paged *paged, uint64_t size, uint64_t bytes,
		     uint64_t *ret_addr)
{
	const uint64_t start = heap->cache->ops->now_ns();
	struct cm_paged_stolen stolen = {.parts = 0};
	bool packed = is_to_be_packed(heap, size);
	struct place place;
	int err;

	if (!choose_place(heap, paged, size, packed, &place))
		return -ENOENT;
	if (packed && !take_spared(heap, paged, size, bytes, place.touched, ret_addr))
		return 0;
	if (moves_pages(heap, &place))
		steal(heap, paged, &place, &stolen);
	if (packed && stolen.pages < place.pages.count) {
		/* No page is created for the sake of a spared block. */
		if (!take_spared(heap, paged, size, bytes, UINT64_MAX, ret_addr)) {
			(void)cm_paged_give_back(heap->device, &stolen);
			return 0;
		}
		packed = stolen.pages != 0;
	}
	/* The stolen pages may have been in the run that the place is joined to. */
	err = choose_place(heap, paged, size, packed, &place)
		      ? cm_paged_map(heap, paged, place.pages, &stolen)
		      : -ENOENT;
	(void)cm_paged_give_back(heap->device, &stolen);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns,
			(int64_t)(heap->cache->ops->now_ns() - start));
	if (packed || err)
		note_outcome(heap, &place, packed, err);
	if (err)
		return err;
	err = take_mapped(heap, paged, &place, size, bytes, ret_addr);
	if (err && err != -EBUSY)
		cm_paged_unmap(heap->device, paged, place.pages);
	return err;
}

int cm_paged_alloc(struct cm_heap *heap, uint64_t ctx, uint64_t size, uint64_t bytes,
		   uint64_t *ret_addr)
{
	const enum cm_pool pool = cm_size_pool(size);
	struct cm_device *device = heap->device;
	struct cm_paged *paged = NULL;
	int err, tries = TRIES;

	cm_lock_acquire(&device->paging);
	err = find_or_reserve(heap, ctx, pool, &paged);
	while (!err && tries--) {
		err = add_pages(heap, paged, size, bytes, ret_addr);
		if (err != -EBUSY)
			break;
		err = tries ? 0 : -ENOENT;
	}
	cm_lock_release(&device->paging);
	/* The driver's error for a page is not its answer to the program: a request for a segment
	 * gets memory, or the error that the program would have got. */
	return err > 0 && err != CM_DRIVER_OUT_OF_MEMORY ? -ENOENT : err;
}
