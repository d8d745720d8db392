/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged_place.h"

#include <errno.h>

#include "allocator/blocks/fragmentation.h"
#include "allocator/paged/runs.h"
#include "allocator/state/state.h"

#define PAGE CM_PAGED_PAGE

/* A span of missing pages, and the runs at its ends. */
struct gap {
	struct cm_paged_span pages;
	uint32_t left; /* runs, 0: none, or none that may be joined */
	uint32_t right;
	uint64_t tail; /* bytes of the free blocks at their ends */
	uint64_t head;
};

static uint32_t total_pages(const struct cm_paged *paged)
{
	return (uint32_t)(paged->bytes / PAGE);
}

/* The run, or 0 if nothing may be joined to it, as its memory is another context's or not
 * allocated again. */
static uint32_t joinable(const struct cm_heap *heap, uint32_t run)
{
	const struct cm_segment *segment = &heap->cache->segment[run];

	return run && segment->heap == heap->index && cm_heap_recycles(heap, segment) ? run : 0;
}

/* The last block of a run; 0 for no run. */
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

uint32_t cm_paged_free_tail(struct cm_heap *heap, struct cm_paged *paged, uint32_t run)
{
	const uint32_t tail = tail_of(heap, paged, run);

	return heap->cache->block[tail].state == CM_BLOCK_FREE ? tail : 0;
}

uint32_t cm_paged_free_head(struct cm_heap *heap, uint32_t run)
{
	const uint32_t head = head_of(heap, run);

	return heap->cache->block[head].state == CM_BLOCK_FREE ? head : 0;
}

/* Keeps the better one of two places: the one that touches the fewest pages if that counts, else
 * the one that lacks the fewest; the first one if they are equal. */
static void consider(const struct cm_paged *paged, const struct gap *gap,
		     struct cm_paged_span pages, uint64_t size, bool packed,
		     struct cm_paged_place *best)
{
	const uint32_t end = pages.first + pages.count;
	const bool joins_left = pages.first == gap->pages.first;
	const bool joins_right = end == gap->pages.first + gap->pages.count;
	const uint64_t tail = joins_left ? gap->tail : 0, head = joins_right ? gap->head : 0;
	const uint64_t addr = cm_paged_addr_of(paged, pages.first) - tail;
	const struct cm_paged_place place = {
		.pages = pages,
		.left = joins_left ? gap->left : 0,
		.right = joins_right ? gap->right : 0,
		.end = cm_paged_page_at(paged, addr + size),
		.touched = cm_paged_touched(addr, tail + pages.count * PAGE + head, size),
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
		    struct cm_paged_place *best)
{
	const uint32_t first = gap->pages.first, count = gap->pages.count;
	const uint32_t behind = cm_paged_pages_of(size > gap->tail ? size - gap->tail : 1);
	const uint32_t before = cm_paged_pages_of(size > gap->head ? size - gap->head : 1);

	if (behind <= count)
		consider(paged, gap, (struct cm_paged_span){first, behind}, size, packed, best);
	else if (gap->tail + count * PAGE + gap->head >= size)
		consider(paged, gap, gap->pages, size, packed, best);
	if (before <= count && gap->right)
		consider(paged, gap, (struct cm_paged_span){first + count - before, before}, size,
			 packed, best);
}

/* The best place for the request, see consider. */
static bool choose_locked(const struct cm_paged_request *request, bool packed,
			  struct cm_paged_place *ret_place)
{
	struct cm_heap *heap = request->heap;
	struct cm_paged *paged = request->paged;
	const struct cm_block *block = heap->cache->block; /* row 0 has no bytes */
	struct gap gap = {.left = 0};
	uint32_t at = 0;

	*ret_place = (struct cm_paged_place){.left = 0};
	/* The pages of a request that is larger than the range may not be counted in 32 bits. */
	if (!cm_paged_stands_locked(request) || request->size > paged->bytes)
		return false;
	for (;;) {
		for (gap.pages.first = at; at < paged->top && !paged->page[at].handle; at++)
			;
		gap.right = at < paged->top ? joinable(heap, cm_paged_run_at(paged, at)) : 0;
		gap.pages.count = (at < paged->top ? at : total_pages(paged)) - gap.pages.first;
		if (gap.pages.count) {
			gap.tail = block[cm_paged_free_tail(heap, paged, gap.left)].size;
			gap.head = block[cm_paged_free_head(heap, gap.right)].size;
			fit_gap(paged, &gap, request->size, packed, ret_place);
		}
		if (at >= paged->top)
			return ret_place->pages.count != 0;
		gap.left = gap.right;
		at = cm_paged_run_at(paged, at)
			     ? cm_paged_page_at(
				       paged,
				       cm_paged_end_of(
					       &heap->cache->segment[cm_paged_run_at(paged, at)]))
			     : at + 1;
	}
}

bool cm_paged_choose_place(const struct cm_paged_request *request, bool packed,
			   struct cm_paged_place *ret_place)
{
	struct cm_heap *heap = request->heap;
	bool found;

	cm_lock_acquire(&heap->device->lock);
	found = choose_locked(request, packed, ret_place);
	ret_place->most = cm_fragmentation_handle_pages_locked(heap, request->size);
	cm_lock_release(&heap->device->lock);
	return found;
}

int cm_paged_enter_locked(const struct cm_paged_request *request,
			  const struct cm_paged_place *place, uint32_t *ret_block)
{
	struct cm_heap *heap = request->heap;
	struct cm_paged *paged = request->paged;
	const uint32_t flags = paged == heap->device->paged[CM_POOL_SMALL] ? CM_SEGMENT_SMALL : 0;
	struct cm_cache *cache = heap->cache;
	uint64_t addr = cm_paged_addr_of(paged, place->pages.first),
		 bytes = place->pages.count * PAGE;
	uint32_t end = place->pages.first + place->pages.count;
	int err;

	if (!cm_paged_stands_locked(request) || cm_heap_drains(heap))
		return -EAGAIN;
	cm_lock_acquire(&cache->tables);
	err = cm_page_map_add(&cache->pages, addr, bytes, heap->device->index, flags);
	cm_lock_release(&cache->tables);
	if (err)
		return -ENOSPC;
	/* A run may have become visible to others since the place was chosen. */
	err = cm_runs_add_locked(heap, flags, addr, bytes,
				 tail_of(heap, paged, joinable(heap, place->left)),
				 head_of(heap, joinable(heap, place->right)), ret_block);
	if (err) {
		cm_lock_acquire(&cache->tables);
		cm_page_map_remove(&cache->pages, addr, bytes);
		cm_lock_release(&cache->tables);
		return err;
	}
	if (paged->top < end)
		paged->top = end;
	cm_paged_tag_run_locked(heap, paged, *ret_block);
	/* What only changes hands has been idle as long as before. */
	if (place->most)
		cm_paged_note_use_locked(paged, addr, bytes, cm_cache_tick(cache));
	return 0;
}
