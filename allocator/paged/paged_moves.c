/* SPDX-License-Identifier: MIT */
#include "allocator/paged/paged_moves.h"
#include "allocator/paged/paged.h"

#include <string.h>

#include "allocator/paged/runs.h"
#include "allocator/state/limit.h"
#include "allocator/state/report.h"

#define PAGE CM_PAGED_PAGE
#define LOST CM_PAGED_LOST

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

struct cm_paged_span cm_paged_whole_pages(const struct cm_paged *paged,
					  const struct cm_block *block, uint32_t most)
{
	uint32_t first = cm_paged_page_at(paged, block->addr + PAGE - 1);
	uint32_t end = cm_paged_page_at(paged, block->addr + block->size);

	if (end <= first)
		return (struct cm_paged_span){0, 0};
	if (end - first > most)
		first = end - most;
	return (struct cm_paged_span){first, end - first};
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

static void lose(struct cm_paged *paged, uint32_t at)
{
	paged->page[at] = (struct cm_paged_page){.handle = LOST};
	if (paged->top <= at)
		paged->top = at + 1;
}

/* Unmaps a page. Returns its handle, or 0 if the page is lost. */
static uint64_t unmap_one(const struct cm_driver_ops *ops, struct cm_paged *paged, uint32_t at)
{
	const uint64_t handle = paged->page[at].handle;

	if (handle == LOST || ops->page_unmap(cm_paged_addr_of(paged, at), PAGE)) {
		lose(paged, at);
		return 0;
	}
	paged->page[at].handle = 0;
	return handle;
}

/* Unmaps the last of the stolen pages; its handle or 0. */
static uint64_t pop_stolen(const struct cm_driver_ops *ops, struct cm_paged_stolen *stolen)
{
	struct cm_paged *from = stolen->part[stolen->parts - 1].from;
	struct cm_paged_span *pages = &stolen->part[stolen->parts - 1].pages;
	const uint32_t at = pages->first + --pages->count;

	stolen->pages--;
	if (!pages->count)
		stolen->parts--;
	return unmap_one(ops, from, at);
}

/* False: the driver has refused, and keeps it. */
static bool release_page(struct cm_device *device, uint64_t handle)
{
	if (device->cache->ops->page_release(handle))
		return false;
	cm_limit_give(device, PAGE);
	return true;
}

uint64_t cm_paged_give_back(struct cm_device *device, struct cm_paged_stolen *stolen)
{
	uint64_t handle, bytes = 0;

	while (stolen->pages) {
		handle = pop_stolen(device->cache->ops, stolen);
		if (handle && release_page(device, handle))
			bytes += PAGE;
	}
	return bytes;
}

void cm_paged_unmap(struct cm_device *device, struct cm_paged *paged, struct cm_paged_span pages)
{
	uint64_t handle;
	uint32_t i;

	for (i = pages.first; i < pages.first + pages.count; i++) {
		handle = unmap_one(device->cache->ops, paged, i);
		if (handle)
			(void)release_page(device, handle);
	}
}

static int create_page(struct cm_device *device, uint64_t *ret_handle)
{
	int err;

	if (!cm_limit_take(device, PAGE))
		return CM_DRIVER_OUT_OF_MEMORY;
	err = device->cache->ops->page_create(device->row->ordinal, PAGE, ret_handle);
	if (err)
		cm_limit_give(device, PAGE);
	return err;
}

/* One page of stolen pages or new, mapped at `at`. */
static int map_one(struct cm_heap *heap, struct cm_paged *paged, uint32_t at,
		   struct cm_paged_stolen *stolen)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t handle = 0;
	int err;

	while (!handle && stolen->pages)
		handle = pop_stolen(ops, stolen);
	err = handle ? 0 : create_page(heap->device, &handle);
	if (err)
		return err;
	err = ops->page_map(cm_paged_addr_of(paged, at), PAGE, handle);
	if (err)
		(void)release_page(heap->device, handle);
	else
		paged->page[at].handle = handle;
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

int cm_paged_map(struct cm_heap *heap, struct cm_paged *paged, struct cm_paged_span pages,
		 struct cm_paged_stolen *stolen)
{
	const uint32_t fresh = pages.count > stolen->pages ? pages.count - stolen->pages : 0;
	struct cm_paged_span done = {pages.first, 0};
	int err = 0;

	if (fresh && cm_limit_refuses(heap->device, (uint64_t)fresh * PAGE))
		err = CM_DRIVER_OUT_OF_MEMORY;
	while (!err && done.count < pages.count) {
		err = map_one(heap, paged, done.first + done.count, stolen);
		done.count += !err;
	}
	if (!err)
		err = open_to_all(heap, cm_paged_addr_of(paged, pages.first), pages.count * PAGE);
	(void)cm_paged_give_back(heap->device, stolen);
	if (err)
		cm_paged_unmap(heap->device, paged, done);
	return err;
}

/* Opens every page of a range to one more device. */
static int open_range_to(const struct cm_driver_ops *ops, const struct cm_paged *paged,
			 int32_t ordinal)
{
	uint32_t at;
	int err = 0;

	for (at = 0; !err && at < paged->top; at++)
		if (paged->page[at].handle && paged->page[at].handle != LOST)
			err = ops->range_open_ungated(ordinal, cm_paged_addr_of(paged, at), PAGE);
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
		memcpy(paged, heap->paged, sizeof(paged));
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
