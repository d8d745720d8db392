/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged_moves.h"
#include "allocator/paged/paged.h"

#include <string.h>

#include "allocator/paged/runs.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/limit.h"

#define PAGE CM_PAGED_PAGE
#define LOST CM_PAGED_LOST
/* On a card that is nearly full, more new pages than these take many driver calls: one more to know
 * whether there is memory for them costs little. */
#define ASK_ABOVE 8

void cm_paged_tag_run_locked(struct cm_heap *heap, struct cm_paged *paged, uint32_t block)
{
	const struct cm_cache *cache = heap->cache;
	const uint32_t run = cache->block[block].segment;
	const struct cm_segment *segment = &cache->segment[run];
	struct cm_paged_page *first, *last;

	if (!block)
		return;
	first = &paged->page[cm_paged_page_at(paged, segment->addr)];
	last = &paged->page[cm_paged_page_at(paged, cm_paged_end_of(segment)) - 1];
	first->run = last->run = run;
	/* An existing hint is nearer to the end than the first block of the run. */
	if (!cache->block[block].next || !cm_runs_has_block(cache, run, last->hint))
		last->hint = block;
}

void cm_paged_keep_last(const struct cm_paged *paged, struct cm_paged_span *pages, uint32_t least)
{
	const uint32_t end = pages->first + pages->count;

	if (pages->count > least) {
		pages->first = cm_paged_handle_start(paged, end - least, pages->first);
		pages->count = end - pages->first;
	}
}

struct cm_paged_span cm_paged_whole_pages_locked(const struct cm_cache *cache,
						 const struct cm_paged *paged,
						 const struct cm_block *block, uint32_t least)
{
	struct cm_paged_span pages = cm_paged_whole_handles_locked(
		paged, &cache->segment[block->segment], block->addr, block->addr + block->size);

	cm_paged_keep_last(paged, &pages, least);
	return pages;
}

bool cm_paged_cut_locked(struct cm_heap *heap, struct cm_paged *paged, uint32_t index,
			 struct cm_paged_span pages, struct cm_paged_stolen *stolen)
{
	struct cm_runs_cut cut;
	uint32_t i;

	if (stolen->parts == CM_PAGED_PARTS ||
	    cm_runs_cut_locked(heap, index, cm_paged_addr_of(paged, pages.first),
			       pages.count * PAGE, &cut))
		return false;
	for (i = 0; i < pages.count; i++)
		paged->page[pages.first + i].run = 0;
	cm_paged_tag_run_locked(heap, paged, cut.before);
	cm_paged_tag_run_locked(heap, paged, cut.behind);
	stolen->part[stolen->parts].from = paged;
	stolen->part[stolen->parts++].pages = pages;
	stolen->pages += pages.count;
	return true;
}

void cm_paged_find_idle_event_locked(struct cm_device *device, struct cm_paged_heaps *ret_heaps)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	*ret_heaps = (struct cm_paged_heaps){0};
	while ((heap = cm_device_next_heap(device, &at)))
		if (cm_fence_is_complete_event_locked(cm_heap_ordered(heap), heap->device) &&
		    !cm_heap_is_dead(heap))
			ret_heaps->bits[heap->index / 64] |= UINT64_C(1) << heap->index % 64;
}

static void lose(struct cm_paged *paged, struct cm_paged_span pages)
{
	const uint32_t end = pages.first + pages.count;
	uint32_t at;

	for (at = pages.first; at < end; at++)
		paged->page[at] = (struct cm_paged_page){.handle = LOST};
	if (paged->top < end)
		paged->top = end;
}

static void set_handle(struct cm_paged *paged, struct cm_paged_span pages, uint64_t handle)
{
	uint32_t at;

	for (at = pages.first; at < pages.first + pages.count; at++)
		paged->page[at].handle = handle;
}

/* Unmaps the last handle of the pages, and takes its *ret_count pages from them. Returns the
 * handle, or 0 if its pages are lost. */
static uint64_t unmap_last(const struct cm_driver_ops *ops, struct cm_paged *paged,
			   struct cm_paged_span *pages, uint32_t *ret_count)
{
	const uint32_t end = pages->first + pages->count;
	const uint32_t first = cm_paged_handle_start(paged, end - 1, pages->first);
	const struct cm_paged_span of = {first, end - first};
	const uint64_t handle = paged->page[first].handle;

	pages->count -= of.count;
	*ret_count = of.count;
	if (handle == LOST || ops->page_unmap(cm_paged_addr_of(paged, first), of.count * PAGE)) {
		lose(paged, of);
		return 0;
	}
	set_handle(paged, of, 0);
	return handle;
}

/* The same with the last stolen pages. */
static uint64_t pop_stolen(const struct cm_driver_ops *ops, struct cm_paged_stolen *stolen,
			   uint32_t *ret_count)
{
	struct cm_paged *from = stolen->part[stolen->parts - 1].from;
	struct cm_paged_span *pages = &stolen->part[stolen->parts - 1].pages;
	const uint64_t handle = unmap_last(ops, from, pages, ret_count);

	stolen->pages -= *ret_count;
	if (!pages->count)
		stolen->parts--;
	return handle;
}

/* Releases a handle of so many pages. Returns its bytes, or 0 if the driver refuses. */
static uint64_t release_handle(struct cm_device *device, uint64_t handle, uint32_t count)
{
	if (device->cache->ops->page_release(handle))
		return 0;
	cm_limit_give(device, count * PAGE);
	return count * PAGE;
}

uint64_t cm_paged_give_back(struct cm_device *device, struct cm_paged_stolen *stolen)
{
	uint64_t handle, bytes = 0;
	uint32_t count;

	while (stolen->pages) {
		handle = pop_stolen(device->cache->ops, stolen, &count);
		if (handle)
			bytes += release_handle(device, handle, count);
	}
	return bytes;
}

void cm_paged_unmap(struct cm_device *device, struct cm_paged *paged, struct cm_paged_span pages)
{
	uint64_t handle;
	uint32_t count;

	while (pages.count) {
		handle = unmap_last(device->cache->ops, paged, &pages, &count);
		if (handle)
			(void)release_handle(device, handle, count);
	}
}

static int create_handle(struct cm_device *device, uint32_t count, uint64_t *ret_handle)
{
	int err;

	if (!cm_limit_take(device, count * PAGE))
		return CM_DRIVER_OUT_OF_MEMORY;
	err = device->cache->ops->page_create(device->row->ordinal, count * PAGE, ret_handle);
	if (err)
		cm_limit_give(device, count * PAGE);
	return err;
}

/* Maps a handle at `pages`, or releases it if the driver refuses. */
static int map_handle(struct cm_device *device, struct cm_paged *paged, struct cm_paged_span pages,
		      uint64_t handle)
{
	int err = device->cache->ops->page_map(cm_paged_addr_of(paged, pages.first),
					       pages.count * PAGE, handle);

	if (err)
		(void)release_handle(device, handle, pages.count);
	else
		set_handle(paged, pages, handle);
	return err;
}

/* Maps stolen handles, from the first page on; *done: the pages that have one. */
static int map_stolen(struct cm_device *device, struct cm_paged *paged, struct cm_paged_span pages,
		      struct cm_paged_stolen *stolen, struct cm_paged_span *done)
{
	uint32_t count, end = pages.first + pages.count, at;
	uint64_t handle;
	int err = 0;

	while (!err && stolen->pages && done->count < pages.count) {
		at = done->first + done->count;
		handle = pop_stolen(device->cache->ops, stolen, &count);
		if (!handle)
			continue;
		if (count > end - at) {
			(void)release_handle(device, handle, count);
			continue;
		}
		err = map_handle(device, paged, (struct cm_paged_span){at, count}, handle);
		done->count += err ? 0 : count;
	}
	return err;
}

/* Whether the device has no memory for so many new pages. Else a request that cannot be served
 * would create handles until the device is full, only to release them. */
static bool is_refused(struct cm_heap *heap, uint32_t count)
{
	uint64_t free_bytes, total;

	return cm_limit_refuses(heap->device, count * PAGE) ||
	       (count > ASK_ABOVE &&
		!heap->cache->ops->mem_info(cm_heap_ctx(heap), &free_bytes, &total) &&
		free_bytes < count * PAGE);
}

/* The next pages of a place that get a handle of their own. */
static struct cm_paged_span next_handle(const struct cm_paged_place *place, uint32_t first)
{
	uint32_t stop = place->pages.first + place->pages.count;

	if (first == place->end)
		stop = first + 1;
	else if (first < place->end && place->end < stop)
		stop = place->end;
	return (struct cm_paged_span){first,
				      stop - first < place->most ? stop - first : place->most};
}

/* Maps new handles at all other pages. */
static int map_new(struct cm_heap *heap, struct cm_paged *paged, const struct cm_paged_place *place,
		   struct cm_paged_span *done)
{
	struct cm_device *device = heap->device;
	struct cm_paged_span next;
	uint64_t handle = 0;
	int err = 0;

	if (done->count < place->pages.count && is_refused(heap, place->pages.count - done->count))
		return CM_DRIVER_OUT_OF_MEMORY;
	while (!err && done->count < place->pages.count) {
		next = next_handle(place, done->first + done->count);
		err = create_handle(device, next.count, &handle);
		if (!err)
			err = map_handle(device, paged, next, handle);
		done->count += err ? 0 : next.count;
	}
	return err;
}

/* The devices besides its own that reach the heap's pages. */
static uint64_t read_open_to(struct cm_heap *heap)
{
	return CM_WITH_LOCK(&heap->device->lock, heap->open_to);
}

static int open_to_all(struct cm_heap *heap, uint64_t addr, uint64_t bytes)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err = ops->range_open(heap->device->row->ordinal, addr, bytes);
	uint64_t others = read_open_to(heap);

	for (; !err && others; others &= others - 1)
		err = ops->range_open(__builtin_ctzll(others), addr, bytes);
	return err;
}

int cm_paged_map(struct cm_heap *heap, struct cm_paged *paged, const struct cm_paged_place *place,
		 struct cm_paged_stolen *stolen)
{
	const struct cm_paged_span pages = place->pages;
	struct cm_paged_span done = {pages.first, 0};
	int err = map_stolen(heap->device, paged, pages, stolen, &done);

	/* First, as the device may have no other memory for new ones. */
	(void)cm_paged_give_back(heap->device, stolen);
	if (!err)
		err = map_new(heap, paged, place, &done);
	if (!err)
		err = open_to_all(heap, cm_paged_addr_of(paged, pages.first), pages.count * PAGE);
	if (err)
		cm_paged_unmap(heap->device, paged, done);
	return err;
}

/* Opens every page of a range to one more device. */
static int open_range_to(const struct cm_driver_ops *ops, const struct cm_paged *paged,
			 int32_t ordinal)
{
	uint32_t at, end;
	int err = 0;

	for (at = 0; !err && at < paged->top; at = end) {
		end = cm_paged_handle_end(paged, at, paged->top);
		if (paged->page[at].handle && paged->page[at].handle != LOST)
			err = ops->range_open_ungated(ordinal, cm_paged_addr_of(paged, at),
						      (end - at) * PAGE);
	}
	return err;
}

int cm_paged_open_to(struct cm_heap *heap, uint64_t ctx, uint64_t ordinals)
{
	struct cm_device *device = heap->device;
	struct cm_paged *paged[CM_POOL_COUNT] = {NULL};
	enum cm_pool pool;
	int err = 0;

	/* No thread maps pages between the note and the calls. */
	cm_lock_acquire(&device->paging);
	cm_lock_acquire(&device->lock);
	if (heap->ctx == ctx) {
		heap->open_to |= ordinals;
		memcpy(paged, device->paged, sizeof(paged));
	}
	cm_lock_release(&device->lock);
	for (; !err && ordinals; ordinals &= ordinals - 1)
		for (pool = CM_POOL_SMALL; !err && pool < CM_POOL_COUNT; pool++)
			if (paged[pool])
				err = open_range_to(heap->cache->ops, paged[pool],
						    __builtin_ctzll(ordinals));
	cm_lock_release(&device->paging);
	return err;
}
