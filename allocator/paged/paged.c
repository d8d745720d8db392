/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/paged/paged_moves.h"
#include "allocator/paged/paged_place.h"
#include "allocator/paged/paged_ready.h"
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

/* A range of addresses and its table, which takes memory only as far as it is used. NULL: none. */
static struct cm_paged *reserve(struct cm_heap *heap)
{
	uint64_t bytes = heap->device->row->total_bytes * RANGE_SHARE;
	struct cm_paged *paged;

	if (bytes < RANGE_LEAST)
		bytes = RANGE_LEAST;
	bytes = bytes / PAGE * PAGE;
	paged = cm_sparse_map(cm_paged_table_bytes(bytes));
	if (!paged)
		return NULL;
	paged->bytes = bytes;
	if (heap->cache->ops->range_reserve(bytes, &paged->base)) {
		(void)munmap(paged, cm_paged_table_bytes(bytes));
		return NULL;
	}
	return paged;
}

/* The device's range. If there is none, `fresh` becomes it, unless it is NULL. False: the context
 * is gone. */
static bool find_range(struct cm_paged_request *request, enum cm_pool pool, struct cm_paged *fresh)
{
	struct cm_device *device = request->heap->device;
	bool stands;

	cm_lock_acquire(&device->lock);
	stands = cm_paged_stands_locked(request);
	if (stands && fresh)
		device->paged[pool] = fresh;
	if (stands)
		request->paged = device->paged[pool];
	cm_lock_release(&device->lock);
	return stands;
}

/* The same; reserves a range if there is none. -EAGAIN: the context is gone; -ENOENT: no range can
 * be reserved. */
static int find_or_reserve(struct cm_paged_request *request, enum cm_pool pool)
{
	struct cm_paged *fresh;

	if (!find_range(request, pool, NULL))
		return -EAGAIN;
	if (request->paged)
		return 0;
	fresh = reserve(request->heap);
	if (!fresh)
		return -ENOENT;
	if (find_range(request, pool, fresh))
		return 0;
	cm_paged_return_range(request->heap->device, fresh);
	return -EAGAIN;
}

/* --- from where --------------------------------------------------------------------------- */

/*
 * Pages from the largest free blocks of a pool, down to those that hold no whole page. The free
 * ends at which the request is to lie stay.
 */
static void steal_from_pool(struct cm_heap *heap, struct cm_paged *growing, enum cm_pool pool,
			    const struct cm_paged_place *place, struct cm_paged_stolen *stolen)
{
	const uint32_t tail = cm_paged_free_tail(heap, growing, place->left);
	const uint32_t head = cm_paged_free_head(heap, place->right), want = place->pages.count;
	uint32_t aside[CM_PAGED_PARTS], n = 0, index;
	struct cm_paged *paged = heap->device->paged[pool];
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
static void steal(const struct cm_paged_request *request, const struct cm_paged_place *place,
		  struct cm_paged_stolen *stolen)
{
	struct cm_heap *heap = request->heap;
	struct cm_cache *cache = heap->cache;
	enum cm_pool pool;

	/* The event lock: what becomes ready behind a new barrier is not idle. */
	cm_lock_acquire(&cache->event_lock);
	if (cm_fence_is_complete_event_locked(cm_heap_ordered(heap), heap->device)) {
		cm_lock_acquire(&heap->device->lock);
		if (cm_paged_stands_locked(request))
			for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
				steal_from_pool(heap, request->paged, pool, place, stolen);
		cm_lock_release(&heap->device->lock);
	}
	cm_lock_release(&cache->event_lock);
}

/* --- growing ------------------------------------------------------------------------------ */

/* Whether so many missing pages are taken from free blocks, as far as there are any. */
static bool moves_pages(struct cm_heap *heap, uint32_t pages)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    cm_fragmentation_moves_pages_locked(heap, pages * PAGE));
}

static bool is_to_be_packed(struct cm_heap *heap, uint64_t size)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    size > CM_SMALL_MAX && cm_fragmentation_packs_pages_locked(heap));
}

/* Tells the heap of the result: what was done, and whether the card is full. */
static void note_outcome(struct cm_heap *heap, const struct cm_paged_place *place, bool packed,
			 int err)
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
static int add_pages(const struct cm_paged_request *request)
{
	struct cm_heap *heap = request->heap;
	const uint64_t start = heap->cache->ops->now_ns();
	struct cm_paged_stolen stolen = {.parts = 0};
	bool packed = is_to_be_packed(heap, request->size);
	struct cm_paged_place place;
	int err;

	if (!cm_paged_choose_place(request, packed, &place))
		return -ENOENT;
	if (packed && !cm_paged_take_spared(request, place.touched))
		return 0;
	if (moves_pages(heap, place.pages.count))
		steal(request, &place, &stolen);
	if (packed && stolen.pages < place.pages.count) {
		/* No page is created for the sake of a spared block. */
		if (!cm_paged_take_spared(request, UINT64_MAX)) {
			(void)cm_paged_give_back(heap->device, &stolen);
			return 0;
		}
		packed = stolen.pages != 0;
	}
	/* The stolen pages may have been in the run that the place is joined to. */
	err = cm_paged_choose_place(request, packed, &place)
		      ? cm_paged_map(heap, request->paged, &place, &stolen)
		      : -ENOENT;
	(void)cm_paged_give_back(heap->device, &stolen);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns,
			(int64_t)(heap->cache->ops->now_ns() - start));
	if (packed || err)
		note_outcome(heap, &place, packed, err);
	if (err)
		return err;
	err = cm_paged_take_added(request, &place);
	if (err && err != -EBUSY)
		cm_paged_unmap(heap->device, request->paged, place.pages);
	return err;
}

int cm_paged_alloc(struct cm_heap *heap, uint64_t ctx, uint64_t size, uint64_t bytes,
		   uint64_t *ret_addr)
{
	struct cm_paged_request request = {
		.heap = heap, .ctx = ctx, .size = size, .bytes = bytes, .ret_addr = ret_addr};
	struct cm_device *device = heap->device;
	int err, tries = TRIES;

	err = cm_paged_await_barrier(heap);
	if (err)
		return err;
	cm_lock_acquire(&device->paging);
	err = find_or_reserve(&request, cm_size_pool(size));
	if (!err && (!cm_paged_divide(&request) || !cm_paged_adopt(&request)))
		tries = 0;
	while (!err && tries--) {
		err = add_pages(&request);
		if (err != -EBUSY)
			break;
		err = tries ? 0 : -ENOENT;
	}
	cm_lock_release(&device->paging);
	/* The driver's error for a page is not its answer to the program: a request for a segment
	 * gets memory, or the error that the program would have got. */
	return err > 0 && err != CM_DRIVER_OUT_OF_MEMORY ? -ENOENT : err;
}
