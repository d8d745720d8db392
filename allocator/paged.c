/* SPDX-License-Identifier: MIT */
#include "allocator/paged.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/fence.h"
#include "allocator/heap.h"
#include "allocator/rows.h"
#include "allocator/runs.h"
#include "allocator/size_class.h"
#include "stats/books.h"

#define PAGE CM_PAGED_PAGE
/* Addresses are plenty: gaps that nothing fits may stay gaps. */
#define RANGE_SHARE 4
#define RANGE_LEAST (UINT64_C(64) << 30)
/* A request goes another way where others take each time what was mapped for it. */
#define TRIES       3
#define VICTIMS_MAX 64
#define LOST        CM_PAGED_LOST

/* Pages in a row, by number. */
struct pages {
	uint32_t first;
	uint32_t count;
};

/* Where a request is to lie: the missing pages, and the runs that they touch. */
struct place {
	struct pages pages;
	uint32_t left;
	uint32_t right;
};

/* Pages taken out of the tables, still mapped where they were. */
struct victims {
	struct {
		struct cm_paged *from;
		struct pages pages;
	} part[VICTIMS_MAX];
	uint32_t parts;
	uint32_t pages; /* all together */
	bool busy;      /* work may still touch some of them */
};

static uint32_t pages_of(uint64_t bytes)
{
	return (uint32_t)((bytes + PAGE - 1) / PAGE);
}

static uint32_t total_pages(const struct cm_paged *paged)
{
	return (uint32_t)(paged->bytes / PAGE);
}

static uint64_t page_addr(const struct cm_paged *paged, uint32_t page)
{
	return paged->base + page * PAGE;
}

static uint32_t page_at(const struct cm_paged *paged, uint64_t addr)
{
	return (uint32_t)((addr - paged->base) / PAGE);
}

bool cm_paged_serves(const struct cm_heap *heap)
{
	return heap->cache->policy.expandable_segments && heap->can & CM_CAN_PAGES &&
	       !(cm_heap_flags(heap) & CM_HEAP_DRAINING);
}

/* A context that has gone has taken the range along; see cm_paged_forget_locked. */
static bool is_standing(const struct cm_heap *heap, const struct cm_paged *paged)
{
	return heap->paged[CM_FIT_SMALL] == paged || heap->paged[CM_FIT_LARGE] == paged;
}

static uint64_t end_of(const struct cm_segment *segment)
{
	return segment->addr + segment->size;
}

static int32_t ordinal_of(const struct cm_heap *heap)
{
	return heap->device->row->ordinal;
}

static size_t table_bytes(uint64_t range)
{
	return sizeof(struct cm_paged) + range / PAGE * sizeof(struct cm_paged_page);
}

/* A range of addresses and its table, of which only what is used takes memory. NULL: none. */
static struct cm_paged *reserve(struct cm_heap *heap)
{
	uint64_t bytes = heap->device->row->total_bytes * RANGE_SHARE;
	struct cm_paged *paged;

	if (bytes < RANGE_LEAST)
		bytes = RANGE_LEAST;
	bytes = bytes / PAGE * PAGE;
	paged = mmap(NULL, table_bytes(bytes), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (paged == MAP_FAILED)
		return NULL;
	paged->bytes = bytes;
	if (heap->cache->ops->range_reserve(bytes, &paged->base)) {
		(void)munmap(paged, table_bytes(bytes));
		return NULL;
	}
	return paged;
}

/* The heap's range, reserved where there is none; NULL: there is none to be had. */
static struct cm_paged *range_of(struct cm_heap *heap, uint32_t fit)
{
	struct cm_paged *paged = heap->paged[fit];

	if (paged)
		return paged;
	paged = reserve(heap);
	cm_lock_acquire(&heap->device->lock);
	heap->paged[fit] = paged;
	cm_lock_release(&heap->device->lock);
	return paged;
}

/* --- where -------------------------------------------------------------------------------- */

/* Notes at the ends of a run which segment it is. */
static void tag_run(struct cm_heap *heap, struct cm_paged *paged, uint32_t run)
{
	const struct cm_segment *segment = &heap->cache->segment[run];
	struct cm_paged_page *first, *last;

	if (!run)
		return;
	first = &paged->page[page_at(paged, segment->addr)];
	last = &paged->page[page_at(paged, end_of(segment)) - 1];
	first->run = last->run = run;
	last->hint = cm_runs_last_block(heap->cache, run, last->hint ? last->hint : first->hint);
}

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

/* The free block at the end of a run, or at its beginning; 0: none. */
static uint32_t free_tail(struct cm_heap *heap, struct cm_paged *paged, uint32_t run)
{
	struct cm_paged_page *last;

	if (!run)
		return 0;
	last = &paged->page[page_at(paged, end_of(&heap->cache->segment[run])) - 1];
	last->hint = cm_runs_last_block(heap->cache, run, last->hint);
	return heap->cache->block[last->hint].state == CM_BLOCK_FREE ? last->hint : 0;
}

static uint32_t free_head(struct cm_heap *heap, uint32_t run)
{
	const uint32_t first = run ? heap->cache->segment[run].first : 0;

	return first && heap->cache->block[first].state == CM_BLOCK_FREE ? first : 0;
}

/* How `size` bytes fit a gap and the free ends around it; false: they don't. */
static bool fit_gap(struct cm_heap *heap, struct cm_paged *paged, struct pages gap, uint32_t left,
		    uint32_t right, uint64_t size, struct place *ret_place)
{
	const struct cm_block *block = heap->cache->block; /* row 0 has no bytes */
	const uint64_t tail = block[free_tail(heap, paged, left)].size;
	const uint64_t head = block[free_head(heap, right)].size;
	const uint32_t end = gap.first + gap.count;
	const uint32_t behind = pages_of(size > tail ? size - tail : 1);
	const uint32_t before = pages_of(size > head ? size - head : 1);

	if (behind <= gap.count && (behind <= before || !right))
		ret_place->pages = (struct pages){gap.first, behind};
	else if (before <= gap.count && right)
		ret_place->pages = (struct pages){end - before, before};
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
	struct pages gap;
	bool found = false;

	if (!is_standing(heap, paged))
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
			     ? page_at(paged, end_of(&heap->cache->segment[run_at(paged, at)]))
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

/* --- taking pages away -------------------------------------------------------------------- */

/* The whole pages of a free block, from its end and at most `most`; count 0: none. */
static struct pages whole_pages(const struct cm_paged *paged, const struct cm_block *block,
				uint32_t most)
{
	uint32_t first = page_at(paged, block->addr + PAGE - 1);
	uint32_t end = page_at(paged, block->addr + block->size);

	if (end <= first)
		return (struct pages){0, 0};
	if (end - first > most)
		first = end - most;
	return (struct pages){first, end - first};
}

/* Takes pages out of a free block and the tables; they stay mapped. */
static bool cut_locked(struct cm_heap *heap, struct cm_paged *paged, uint32_t index,
		       struct pages pages, struct victims *victims)
{
	struct cm_runs_cut cut;
	uint32_t i;

	if (victims->parts == VICTIMS_MAX ||
	    cm_runs_cut_locked(heap, index, page_addr(paged, pages.first), pages.count * PAGE,
			       &cut))
		return false;
	for (i = 0; i < pages.count; i++)
		paged->page[pages.first + i].run = 0;
	tag_run(heap, paged, cut.left);
	tag_run(heap, paged, cut.right);
	victims->part[victims->parts].from = paged;
	victims->part[victims->parts++].pages = pages;
	victims->pages += pages.count;
	return true;
}

/*
 * Pages from the largest free blocks of a pool, down to those that hold no whole page. The free ends
 * at which the request is to lie stay.
 */
static void rob_pool(struct cm_heap *heap, struct cm_paged *growing, uint32_t fit,
		     const struct place *place, struct victims *victims)
{
	const uint32_t tail = free_tail(heap, growing, place->left);
	const uint32_t head = free_head(heap, place->right), want = place->pages.count;
	uint32_t aside[VICTIMS_MAX], n = 0, index;
	struct cm_paged *paged = heap->paged[fit];
	const struct cm_block *block = heap->cache->block;
	struct pages pages;

	while (paged && victims->pages < want && n < VICTIMS_MAX) {
		index = cm_bins_largest(&heap->bins[fit]);
		if (!index || block[index].size < PAGE)
			break;
		pages = (struct pages){0, 0};
		if (index != tail && index != head &&
		    heap->cache->segment[block[index].segment].flags & CM_SEGMENT_PAGED)
			pages = whole_pages(paged, &block[index], want - victims->pages);
		if (!pages.count) {
			cm_bins_remove(&heap->bins[fit], index);
			aside[n++] = index;
		} else if (!cut_locked(heap, paged, index, pages, victims)) {
			break;
		}
	}
	while (n)
		cm_bins_insert(&heap->bins[fit], aside[--n]);
}

/* Pages that no work can touch, up to those that the place lacks; none where a barrier is still on its way. */
static void rob(struct cm_heap *heap, struct cm_paged *paged, const struct place *place,
		struct victims *victims)
{
	struct cm_cache *cache = heap->cache;
	uint32_t fit;

	/* The turn: what gets ready behind a new barrier is not idle. */
	cm_lock_acquire(&cache->turn);
	if (cm_fence_is_complete_turned(&heap->ordered)) {
		cm_lock_acquire(&heap->device->lock);
		if (is_standing(heap, paged))
			for (fit = 0; fit < CM_FIT_COUNT; fit++)
				rob_pool(heap, paged, fit, place, victims);
		cm_lock_release(&heap->device->lock);
	}
	cm_lock_release(&cache->turn);
}

/* --- moving pages ------------------------------------------------------------------------- */

static void lose(struct cm_paged *paged, uint32_t at)
{
	paged->page[at] = (struct cm_paged_page){.handle = LOST};
	if (paged->top <= at)
		paged->top = at + 1;
}

/* Takes a page away from its place; its handle, or 0 where it is lost. */
static uint64_t unmap_one(const struct cm_driver_ops *ops, struct cm_paged *paged, uint32_t at)
{
	const uint64_t handle = paged->page[at].handle;

	if (handle == LOST || ops->page_unmap(page_addr(paged, at), PAGE)) {
		lose(paged, at);
		return 0;
	}
	paged->page[at].handle = 0;
	return handle;
}

/* Unmaps the last of the victims; its handle or 0. */
static uint64_t pop_victim(const struct cm_driver_ops *ops, struct victims *victims)
{
	struct cm_paged *from = victims->part[victims->parts - 1].from;
	struct pages *pages = &victims->part[victims->parts - 1].pages;
	const uint32_t at = pages->first + --pages->count;

	victims->pages--;
	if (!pages->count)
		victims->parts--;
	return unmap_one(ops, from, at);
}

static uint64_t give_back(const struct cm_driver_ops *ops, struct victims *victims)
{
	uint64_t handle, bytes = 0;

	while (victims->pages) {
		handle = pop_victim(ops, victims);
		if (handle && !ops->page_release(handle))
			bytes += PAGE;
	}
	return bytes;
}

/* Takes mapped pages that are in no run back out. */
static void unmap(const struct cm_driver_ops *ops, struct cm_paged *paged, struct pages pages)
{
	uint64_t handle;
	uint32_t i;

	for (i = pages.first; i < pages.first + pages.count; i++) {
		handle = unmap_one(ops, paged, i);
		if (handle)
			(void)ops->page_release(handle);
	}
}

/* One page of victims or new, mapped at `at`. */
static int map_one(struct cm_heap *heap, struct cm_paged *paged, uint32_t at,
		   struct victims *victims)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t handle = 0;
	int err;

	while (!handle && victims->pages)
		handle = pop_victim(ops, victims);
	err = handle ? 0 : ops->page_create(ordinal_of(heap), PAGE, &handle);
	if (err)
		return err;
	err = ops->page_map(page_addr(paged, at), PAGE, handle);
	if (err)
		(void)ops->page_release(handle);
	else
		paged->page[at].handle = handle;
	return err;
}

static int open_to_all(struct cm_heap *heap, uint64_t addr, uint64_t bytes)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err = ops->range_open(ordinal_of(heap), addr, bytes);
	int32_t other;

	for (other = 0; !err && other < CM_DEVICES_MAX; other++)
		if (heap->open_to >> other & 1)
			err = ops->range_open(other, addr, bytes);
	return err;
}

/* Maps all pages of the place or none. */
static int map_place(struct cm_heap *heap, struct cm_paged *paged, struct pages pages,
		     struct victims *victims)
{
	const uint32_t fresh = pages.count > victims->pages ? pages.count - victims->pages : 0;
	struct pages done = {pages.first, 0};
	int err = 0;

	if (fresh && cm_device_is_capped(heap->device, (uint64_t)pages.count * PAGE))
		err = CM_DRIVER_OUT_OF_MEMORY;
	while (!err && done.count < pages.count) {
		err = map_one(heap, paged, done.first + done.count, victims);
		done.count += !err;
	}
	if (!err)
		err = open_to_all(heap, page_addr(paged, pages.first), pages.count * PAGE);
	(void)give_back(heap->cache->ops, victims);
	if (err)
		unmap(heap->cache->ops, paged, done);
	return err;
}

static void count_time(struct cm_device *device, uint64_t start)
{
	cm_lock_acquire(&device->lock);
	cm_books_begin(device->row);
	cm_books_count(device->row, CM_SCALAR_driver_alloc_ns,
		       (int64_t)(device->cache->ops->now_ns() - start));
	cm_books_end(device->row);
	cm_lock_release(&device->lock);
}

/* Enters what was mapped. -EAGAIN: the context has gone, or caching has stopped meanwhile. */
static int enter_locked(struct cm_heap *heap, struct cm_paged *paged, const struct place *place)
{
	const uint32_t flags = paged == heap->paged[CM_FIT_SMALL] ? CM_SEGMENT_SMALL : 0;
	struct cm_cache *cache = heap->cache;
	uint64_t addr = page_addr(paged, place->pages.first), bytes = place->pages.count * PAGE;
	uint32_t run, end = place->pages.first + place->pages.count;
	int err;

	if (!is_standing(heap, paged) || cm_heap_flags(heap) & CM_HEAP_DRAINING)
		return -EAGAIN;
	cm_lock_acquire(&cache->tables);
	err = cm_page_map_add(&cache->pages, addr, bytes, heap->device->index);
	cm_lock_release(&cache->tables);
	if (err)
		return -ENOSPC;
	/* A run may have been shown to others since the place was chosen. */
	err = cm_runs_add_locked(heap, flags, addr, bytes, joinable(cache, place->left),
				 joinable(cache, place->right), &run);
	if (err)
		return err;
	if (paged->top < end)
		paged->top = end;
	tag_run(heap, paged, run);
	return 0;
}

/* Adds pages where `size` bytes lack the fewest, and hands them out. -EBUSY: others were faster. */
static int grow(struct cm_heap *heap, struct cm_paged *paged, uint64_t size, uint64_t bytes,
		uint64_t *ret_addr)
{
	const uint64_t start = heap->cache->ops->now_ns();
	struct victims victims = {.parts = 0};
	struct place place;
	int err;

	if (!choose(heap, paged, size, &place))
		return -ENOENT;
	rob(heap, paged, &place, &victims);
	/* What was cut may have been one run with what the place is to be joined with. */
	err = choose(heap, paged, size, &place) ? map_place(heap, paged, place.pages, &victims)
						: -ENOENT;
	(void)give_back(heap->cache->ops, &victims);
	count_time(heap->device, start);
	if (err)
		return err;
	cm_lock_acquire(&heap->device->lock);
	err = enter_locked(heap, paged, &place);
	if (!err && cm_heap_take_grown_locked(heap, size, bytes, ret_addr))
		err = -EBUSY;
	cm_lock_release(&heap->device->lock);
	if (err && err != -EBUSY)
		unmap(heap->cache->ops, paged, place.pages);
	return err;
}

int cm_paged_alloc(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr)
{
	const uint32_t fit = size <= CM_SMALL_MAX ? CM_FIT_SMALL : CM_FIT_LARGE;
	struct cm_device *device = heap->device;
	struct cm_paged *paged;
	int err = -ENOENT, tries = TRIES;

	cm_lock_acquire(&device->paging);
	paged = range_of(heap, fit);
	while (paged && tries--) {
		err = grow(heap, paged, size, bytes, ret_addr);
		if (err != -EBUSY)
			break;
		err = -ENOENT;
	}
	cm_lock_release(&device->paging);
	return err;
}

/* --- giving back -------------------------------------------------------------------------- */

/* The next free block of a run that holds whole pages: of one that is not recycled, all or none. */
static bool find_idle(struct cm_heap *heap, const struct cm_paged *paged, uint32_t run,
		      uint32_t *ret_block, struct pages *ret_pages)
{
	struct cm_cache *cache = heap->cache;
	const bool whole = !cm_segment_is_recycled(cache, &cache->segment[run]);
	uint32_t index;

	if (whole && !cm_segment_is_free(cache, &cache->segment[run]))
		return false;
	for (index = cache->segment[run].first; index; index = cache->block[index].next) {
		if (cache->block[index].state != CM_BLOCK_FREE)
			continue;
		*ret_pages = whole_pages(paged, &cache->block[index], UINT32_MAX);
		*ret_block = index;
		if (ret_pages->count)
			return true;
	}
	return false;
}

/* Takes idle pages of a heap out of the tables until there are none or too many parts. `orphans`: of
 * runs that are not recycled alone. */
static void collect_locked(struct cm_heap *heap, bool orphans, struct victims *victims)
{
	struct cm_cache *cache = heap->cache;
	uint32_t s, end = cm_rows_segments(cache), index;
	struct cm_paged *paged;
	struct pages pages;

	for (s = 1; s < end; s++) {
		const struct cm_segment *run = &cache->segment[s];

		/* Where a run is cut in two, one of them may be another row: seen below or at the
		 * next call. */
		while (cm_segment_is_of(run, heap->device) && run->flags & CM_SEGMENT_PAGED &&
		       run->heap == heap->index) {
			paged = heap->paged[cm_segment_fit(run)];
			if (!paged || (orphans && cm_segment_is_recycled(cache, run)) ||
			    !find_idle(heap, paged, s, &index, &pages))
				break;
			/* Freed without waiting for the device, as it was to go back at once. */
			victims->busy |= !cm_segment_is_recycled(cache, run);
			if (!cut_locked(heap, paged, index, pages, victims))
				return;
		}
	}
}

/* Of all contexts: work of each may touch what the others have. */
static void wait_for_contexts(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	uint64_t ctx;

	for (i = 0; i < n; i++) {
		ctx = cm_heap_ctx(atomic_load_explicit(&cache->heap[i], memory_order_relaxed));
		if (ctx)
			(void)cache->ops->ctx_synchronize(ctx);
	}
}

static uint64_t release_of(struct cm_heap *heap, bool orphans)
{
	struct cm_cache *cache = heap->cache;
	struct victims victims = {.parts = 0};
	uint64_t bytes = 0;

	do {
		cm_lock_acquire(&cache->turn);
		if (cm_fence_is_complete_turned(&heap->ordered)) {
			cm_lock_acquire(&heap->device->lock);
			collect_locked(heap, orphans, &victims);
			cm_lock_release(&heap->device->lock);
		}
		cm_lock_release(&cache->turn);
		if (!victims.pages)
			return bytes;
		/* As cuMemFree waits. In a context that is broken no work is left. */
		if (victims.busy)
			wait_for_contexts(cache);
		victims.busy = false;
		bytes += give_back(cache->ops, &victims);
	} while (true);
}

static uint64_t release(struct cm_device *device, bool orphans)
{
	struct cm_cache *cache = device->cache;
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;
	uint64_t bytes = 0;

	if (!cache->policy.expandable_segments)
		return 0;
	cm_lock_acquire(&device->paging);
	for (i = 0; i < n; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		if (cm_heap_ctx(heap) && heap->device == device)
			bytes += release_of(heap, orphans);
	}
	cm_lock_release(&device->paging);
	return bytes;
}

uint64_t cm_paged_release(struct cm_device *device)
{
	return release(device, false);
}

uint64_t cm_paged_release_orphans(struct cm_device *device)
{
	return release(device, true);
}

uint64_t cm_paged_returnable_locked(const struct cm_cache *cache, uint32_t run)
{
	uint64_t from = 0, first, end, bytes = 0;
	const struct cm_block *block;
	uint32_t index = cache->segment[run].first;

	do {
		block = index ? &cache->block[index] : NULL;
		if (block && block->state != CM_BLOCK_LIVE) {
			from = from ? from : block->addr;
		} else if (from) {
			first = (from + PAGE - 1) / PAGE;
			end = (block ? block->addr : end_of(&cache->segment[run])) / PAGE;
			bytes += end > first ? (end - first) * PAGE : 0;
			from = 0;
		}
		index = block ? block->next : 0;
	} while (block);
	return bytes;
}

void cm_paged_forget_locked(struct cm_heap *heap)
{
	uint32_t fit;

	for (fit = 0; fit < CM_FIT_COUNT; fit++) {
		struct cm_paged *paged = heap->paged[fit];

		if (!paged)
			continue;
		heap->paged[fit] = NULL;
		paged->next = heap->device->forgotten;
		heap->device->forgotten = paged;
	}
	heap->open_to = 0;
}

/* None while a context is ending: its work may run until the driver has done with it. */
static struct cm_paged *take_forgotten(struct cm_device *device)
{
	struct cm_cache *cache = device->cache;
	struct cm_paged *paged;

	cm_lock_acquire(&cache->turn);
	cm_lock_acquire(&device->lock);
	paged = cache->ending ? NULL : device->forgotten;
	if (paged)
		device->forgotten = paged->next;
	cm_lock_release(&device->lock);
	cm_lock_release(&cache->turn);
	return paged;
}

/* The range itself stays reserved where a page of it is lost. */
static void return_range(const struct cm_driver_ops *ops, struct cm_paged *paged)
{
	bool all = true;
	uint32_t at;

	for (at = 0; at < paged->top; at++) {
		if (paged->page[at].handle)
			unmap(ops, paged, (struct pages){at, 1});
		all &= paged->page[at].handle != LOST;
	}
	if (all)
		(void)ops->range_free(paged->base, paged->bytes);
	(void)munmap(paged, table_bytes(paged->bytes));
}

void cm_paged_return_forgotten(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	struct cm_paged *paged;

	for (i = 0; cache->policy.expandable_segments && i < n; i++) {
		cm_lock_acquire(&cache->device[i]->paging);
		while ((paged = take_forgotten(cache->device[i])))
			return_range(cache->ops, paged);
		cm_lock_release(&cache->device[i]->paging);
	}
}

int cm_paged_open_to(struct cm_heap *heap, int32_t ordinal)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	const struct cm_paged *paged;
	uint32_t fit, at;
	int err = 0;

	if (!heap->cache->policy.expandable_segments || ordinal < 0 || ordinal >= CM_DEVICES_MAX)
		return 0;
	cm_lock_acquire(&heap->device->paging);
	heap->open_to |= UINT64_C(1) << ordinal;
	for (fit = 0; fit < CM_FIT_COUNT; fit++) {
		paged = heap->paged[fit];
		for (at = 0; paged && !err && at < paged->top; at++)
			if (paged->page[at].handle && paged->page[at].handle != LOST)
				err = ops->range_open(ordinal, page_addr(paged, at), PAGE);
	}
	cm_lock_release(&heap->device->paging);
	return err;
}
