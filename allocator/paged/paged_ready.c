/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged_ready.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/heap.h"
#include "allocator/blocks/poll_policy.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/report.h"

#define PAGE  CM_PAGED_PAGE
#define LOOKS 64u /* free blocks of another context that a request reads */
/* At its next miss after so many requests a context gets all that others have idle, not only what
 * the request needs. Not at each miss: contexts that take turns at every request would take all of
 * it from each other again and again. */
#define GATHER_PAUSE 64u

/* --- dividing a handle -------------------------------------------------------------------- */

/* The handle that the request would divide in a ready block, and may not; count 0: none. */
static struct cm_paged_span divided_locked(const struct cm_paged_request *request, uint32_t index)
{
	return cm_fragmentation_divided_locked(request->heap, &request->heap->cache->block[index],
					       request->size);
}

/* Takes a free block; `idle`: no work can touch it. -EINPROGRESS: the request would divide a handle
 * that is too large; that is cut out of the block, and is to be replaced. -ENOENT: it is too
 * small. */
static int take_or_cut_locked(const struct cm_paged_request *request, uint32_t index, bool idle,
			      enum cm_scalar source, struct cm_paged_place *ret_place,
			      struct cm_paged_stolen *stolen)
{
	struct cm_heap *heap = request->heap;
	const uint64_t end = heap->cache->block[index].addr + request->size;
	const struct cm_paged_span pages = idle && index ? divided_locked(request, index)
							 : (struct cm_paged_span){0, 0};

	if (!pages.count || !cm_paged_cut_locked(heap, request->paged, index, pages, stolen))
		return cm_heap_take_block_locked(heap, index, request->size, request->bytes, source,
						 request->ret_addr);
	*ret_place = (struct cm_paged_place){
		.pages = pages,
		.left = cm_paged_run_before(request->paged, pages.first),
		.right = cm_paged_run_at(request->paged, pages.first + pages.count),
		.most = pages.count,
		.end = cm_paged_page_at(request->paged, end),
	};
	return -EINPROGRESS;
}

/* Enters mapped pages and serves the request. -EINPROGRESS as above; -EBUSY: another thread was
 * faster. Else as cm_paged_enter_locked. */
static int take_entered_locked(const struct cm_paged_request *request,
			       const struct cm_paged_place *place, bool idle,
			       struct cm_paged_place *ret_divided, struct cm_paged_stolen *stolen)
{
	uint32_t block;
	int err = cm_paged_enter_locked(request, place, &block);

	if (!err)
		err = take_or_cut_locked(request, block, idle, CM_SCALAR_cache_misses, ret_divided,
					 stolen);
	if (err != -ENOENT)
		return err;
	return cm_heap_take_locked(request->heap, request->size, request->bytes, request->ret_addr)
		       ? -EBUSY
		       : 0;
}

/* Puts new handles in the place of the one that was cut out, and serves the request. */
static int replace(const struct cm_paged_request *request, const struct cm_paged_place *place,
		   struct cm_paged_stolen *stolen)
{
	struct cm_heap *heap = request->heap;
	const uint64_t start = heap->cache->ops->now_ns();
	int err = -ENOENT;

	(void)cm_paged_give_back(heap->device, stolen);
	/* Unless the pages are lost. */
	if (!request->paged->page[place->pages.first].handle)
		err = cm_paged_map(heap, request->paged, place, stolen);
	cm_device_count(heap->device, CM_SCALAR_driver_alloc_ns,
			(int64_t)(heap->cache->ops->now_ns() - start));
	if (err)
		return -ENOENT;
	err = CM_WITH_LOCK(&heap->device->lock,
			   take_entered_locked(request, place, false, NULL, stolen));
	if (err && err != -EBUSY)
		cm_paged_unmap(heap->device, request->paged, place->pages);
	return err;
}

/* Whether no work can touch the ready memory of the request's context. The event lock: what becomes
 * ready behind a new barrier is not idle. */
static bool is_idle_event_locked(const struct cm_paged_request *request)
{
	return cm_fence_is_complete_event_locked(cm_heap_ordered(request->heap),
						 request->heap->device);
}

/* The ready block that fits best, if the request would divide a handle of it; else 0. */
static uint32_t find_divided_locked(const struct cm_paged_request *request)
{
	const struct cm_bins *bins = &request->heap->bins[cm_size_pool(request->size)];
	const uint32_t index = cm_bins_find(bins, request->size).index;

	return index && divided_locked(request, index).count ? index : 0;
}

/* By a block that was spared and touches at most `most` pages, if that is not 0; else by one whose
 * handle is divided. */
static int take_ready(const struct cm_paged_request *request, uint64_t most)
{
	struct cm_heap *heap = request->heap;
	struct cm_device *device = heap->device;
	struct cm_cache *cache = heap->cache;
	struct cm_paged_stolen stolen = {.parts = 0};
	struct cm_paged_place place = {0};
	uint32_t index = 0;
	bool idle;
	int err;

	cm_lock_acquire(&cache->event_lock);
	idle = is_idle_event_locked(request);
	cm_lock_acquire(&device->lock);
	if (cm_paged_stands_locked(request))
		index = most ? cm_fragmentation_find_reserved_locked(heap, request->size, most)
			     : find_divided_locked(request);
	err = take_or_cut_locked(request, index, idle, CM_SCALAR_cache_hits, &place, &stolen);
	cm_lock_release(&device->lock);
	cm_lock_release(&cache->event_lock);
	return err == -EINPROGRESS ? replace(request, &place, &stolen) : err;
}

int cm_paged_divide(const struct cm_paged_request *request)
{
	const bool divides = CM_WITH_LOCK(&request->heap->device->lock,
					  cm_paged_stands_locked(request) &&
						  find_divided_locked(request));

	return divides ? take_ready(request, 0) : -ENOENT;
}

int cm_paged_take_spared(const struct cm_paged_request *request, uint64_t most)
{
	return take_ready(request, most);
}

int cm_paged_take_added(const struct cm_paged_request *request, const struct cm_paged_place *place)
{
	struct cm_device *device = request->heap->device;
	struct cm_cache *cache = request->heap->cache;
	struct cm_paged_stolen stolen = {.parts = 0};
	struct cm_paged_place divided = {0};
	bool idle;
	int err;

	cm_lock_acquire(&cache->event_lock);
	idle = is_idle_event_locked(request);
	cm_lock_acquire(&device->lock);
	err = take_entered_locked(request, place, idle, &divided, &stolen);
	cm_lock_release(&device->lock);
	cm_lock_release(&cache->event_lock);
	if (err == -EINPROGRESS)
		err = replace(request, &divided, &stolen) ? -EBUSY : 0;
	return err;
}

int cm_paged_await_barrier(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	struct cm_lock *reclaim_lock = &device->first->reclaim_lock;
	int err;

	if (!CM_WITH_LOCK(&device->lock, cm_fragmentation_awaits_barrier_locked(heap)) ||
	    CM_WITH_LOCK(&heap->cache->event_lock,
			 cm_fence_is_complete_event_locked(cm_heap_ordered(heap), device)) ||
	    !cm_lock_try(reclaim_lock))
		return 0;
	err = cm_epoch_quiesces(device, CM_PATIENCE_NS);
	cm_lock_release(reclaim_lock);
	return err == -EBUSY ? err : 0;
}

/* --- pages of other contexts --------------------------------------------------------------- */

/* Pages in a free block of another context, as few as the request needs. */
struct offer {
	struct cm_heap *lender; /* NULL: there are none */
	uint32_t block;
	struct cm_paged_span pages;
};

/* Keeps the offer of fewer pages. */
static void look_at_block(const struct cm_paged_request *request, struct cm_heap *lender,
			  uint32_t index, struct offer *best)
{
	const struct cm_cache *cache = request->heap->cache;
	struct cm_paged_span pages;

	if (!(cache->segment[cache->block[index].segment].flags & CM_SEGMENT_PAGED))
		return;
	pages = cm_paged_whole_pages_locked(cache, request->paged, &cache->block[index],
					    cm_paged_pages_of(request->size));
	if (pages.count >= cm_paged_pages_of(request->size) &&
	    (!best->lender || pages.count < best->pages.count))
		*best = (struct offer){lender, index, pages};
}

/* The same for the tightest free blocks of another context. */
static void look_at_lender(const struct cm_paged_request *request, struct cm_heap *lender,
			   struct offer *best)
{
	const struct cm_bins *bins = &lender->bins[cm_size_pool(request->size)];
	const uint32_t pages = cm_paged_pages_of(request->size);
	uint32_t bin = cm_bins_next(bins, cm_bins_of(pages * PAGE >> CM_GRAIN_SHIFT));
	uint32_t looks = LOOKS, index;

	for (; bin < CM_BINS_COUNT; bin = cm_bins_next(bins, bin + 1))
		for (index = bins->head[bin]; index; index = bins->block[index].link_next) {
			look_at_block(request, lender, index, best);
			if (!--looks || (best->lender && best->pages.count == pages))
				return;
		}
}

/* The next other context from *at on that lends: no work can touch its free memory, and its pages
 * are open to all devices to which the request's are. NULL: there is none. */
static struct cm_heap *next_lender_locked(const struct cm_paged_request *request,
					  const struct cm_paged_heaps *idle, uint32_t *at)
{
	struct cm_heap *lender;

	while ((lender = cm_device_next_heap(request->heap->device, at)))
		if (lender != request->heap && cm_paged_has_heap(idle, lender) &&
		    !(request->heap->open_to & ~lender->open_to))
			break;
	return lender;
}

static struct offer find_offer_locked(const struct cm_paged_request *request,
				      const struct cm_paged_heaps *idle)
{
	struct offer best = {.lender = NULL};
	struct cm_heap *lender;
	uint32_t at = 0;

	while ((lender = next_lender_locked(request, idle, &at)))
		look_at_lender(request, lender, &best);
	return best;
}

/* The pages change hands: *ret_block is the free block that contains them. The driver is not called
 * for that: its counters stay as they were. If it fails, they may be stolen pages. */
static int take_offer_locked(const struct cm_paged_request *request, const struct offer *offer,
			     struct cm_paged_stolen *stolen, uint32_t *ret_block)
{
	struct cm_device_row *row = request->heap->device->row;
	struct cm_paged_place place = {.pages = offer->pages};
	int err;

	if (!cm_paged_cut_locked(offer->lender, request->paged, offer->block, offer->pages, stolen))
		return -ENOENT;
	place.left = cm_paged_run_before(request->paged, offer->pages.first);
	place.right = cm_paged_run_at(request->paged, offer->pages.first + offer->pages.count);
	err = cm_paged_enter_locked(request, &place, ret_block);
	if (err)
		return err;
	*stolen = (struct cm_paged_stolen){.parts = 0};
	cm_counters_begin(row);
	cm_counters_count(row, CM_SCALAR_num_device_alloc, -1);
	cm_counters_count(row, CM_SCALAR_num_device_free, -1);
	cm_counters_end(row);
	return 0;
}

/* The pages in a free block. */
static struct offer offer_all_locked(const struct cm_paged_request *request, struct cm_heap *lender,
				     uint32_t index)
{
	const struct cm_cache *cache = request->heap->cache;
	struct offer offer = {lender, index, {0, 0}};

	if (cache->segment[cache->block[index].segment].flags & CM_SEGMENT_PAGED)
		offer.pages = cm_paged_whole_pages_locked(cache, request->paged,
							  &cache->block[index], UINT32_MAX);
	return offer;
}

/* The largest free blocks of another context with pages to offer. Returns how many. */
static uint32_t find_largest_locked(const struct cm_paged_request *request, struct cm_heap *lender,
				    uint32_t ret_blocks[LOOKS])
{
	const struct cm_bins *bins = &lender->bins[cm_size_pool(request->size)];
	uint32_t bin = cm_bins_before(bins, CM_BINS_COUNT), looks = 0, n = 0, index;

	for (; bin >= cm_bins_of(PAGE >> CM_GRAIN_SHIFT); bin = cm_bins_before(bins, bin))
		for (index = bins->head[bin]; index; index = bins->block[index].link_next) {
			if (offer_all_locked(request, lender, index).pages.count)
				ret_blocks[n++] = index;
			if (++looks == LOOKS)
				return n;
		}
	return n;
}

/* Idle pages of all other contexts change hands, and join where they lie side by side, as far as
 * there are rows. */
static void gather_locked(const struct cm_paged_request *request, const struct cm_paged_heaps *idle,
			  struct cm_paged_stolen *stolen)
{
	uint32_t blocks[LOOKS], n, at = 0, block;
	struct cm_heap *lender;
	struct offer offer;
	int err = 0;

	request->heap->gathered_at = cm_poll_policy_requests(request->heap);
	while (!err && (lender = next_lender_locked(request, idle, &at)))
		for (n = find_largest_locked(request, lender, blocks); !err && n--;) {
			offer = offer_all_locked(request, lender, blocks[n]);
			err = take_offer_locked(request, &offer, stolen, &block);
		}
}

/* Serves the request by pages of other contexts, or -EINPROGRESS as above. */
static int take_of_others_locked(const struct cm_paged_request *request,
				 const struct cm_paged_heaps *idle,
				 struct cm_paged_place *ret_place, struct cm_paged_stolen *stolen)
{
	struct cm_heap *heap = request->heap;
	const struct offer offer = find_offer_locked(request, idle);
	uint32_t block;
	int err;

	if (!cm_paged_stands_locked(request) || cm_heap_drains(heap))
		return -ENOENT;
	if (offer.lender && cm_poll_policy_requests(heap) - heap->gathered_at < GATHER_PAUSE) {
		err = take_offer_locked(request, &offer, stolen, &block);
		if (err)
			return err;
	} else {
		gather_locked(request, idle, stolen);
		block = find_divided_locked(request);
		if (!block)
			return cm_heap_take_unfragmenting_locked(heap, request->size,
								 request->bytes, request->ret_addr);
	}
	return take_or_cut_locked(request, block, cm_paged_has_heap(idle, heap),
				  CM_SCALAR_cache_hits, ret_place, stolen);
}

/* What other contexts have freed is made ready if their work is done, as only their own requests
 * do it otherwise. */
static void poll_lenders_event_locked(const struct cm_paged_request *request)
{
	struct cm_heap *lender;
	uint32_t at = 0;

	while ((lender = cm_device_next_heap(request->heap->device, &at))) {
		if (lender == request->heap || cm_heap_pending_bytes(lender) < PAGE ||
		    !(lender->can & CM_CAN_CTX_EVENTS) || cm_heap_is_suspended(lender))
			continue;
		(void)cm_epoch_close_event_locked(lender);
		(void)cm_epoch_poll_event_locked(lender);
	}
}

int cm_paged_adopt(const struct cm_paged_request *request)
{
	struct cm_cache *cache = request->heap->cache;
	struct cm_device *device = request->heap->device;
	struct cm_paged_stolen stolen = {.parts = 0};
	struct cm_paged_place divided = {0};
	struct cm_paged_heaps idle;
	int err;

	if (atomic_load_explicit(&cache->contexts, memory_order_relaxed) == 1 ||
	    CM_WITH_LOCK(&device->lock, cm_fragmentation_is_full_locked(request->heap)))
		return -ENOENT;
	cm_lock_acquire(&cache->event_lock);
	poll_lenders_event_locked(request);
	cm_paged_find_idle_event_locked(device, &idle);
	cm_lock_acquire(&device->lock);
	err = take_of_others_locked(request, &idle, &divided, &stolen);
	cm_lock_release(&device->lock);
	cm_lock_release(&cache->event_lock);
	if (err == -EINPROGRESS)
		return replace(request, &divided, &stolen);
	/* If no rows are left for them. */
	(void)cm_paged_give_back(device, &stolen);
	return err;
}
