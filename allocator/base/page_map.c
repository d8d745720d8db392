/* SPDX-License-Identifier: MIT */
#include "allocator/base/page_map.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "stats/sparse.h"

#define TOP_BYTES  (sizeof(struct cm_page *) << CM_PAGE_TOP_BITS)
#define LEAF_PAGES (UINT64_C(1) << CM_PAGE_LEAF_BITS)
#define LEAF_BYTES (LEAF_PAGES * sizeof(struct cm_page))
#define CELL_BYTES (CM_PAGE_SMALL_CELLS * sizeof(uint32_t))

_Static_assert((CELL_BYTES + sizeof(struct cm_page)) * 100 <= CM_PAGE_BYTES,
	       "takes at most 1 % of the small pool");

int cm_page_map_init(struct cm_page_map *map, struct cm_block *table)
{
	*map = (struct cm_page_map){.top = cm_sparse_map(TOP_BYTES), .block = table};
	return map->top ? 0 : -ENOMEM;
}

static void drop_cells(struct cm_page *page)
{
	if (page->cell && page->cell != page->own)
		(void)munmap(page->cell, CELL_BYTES);
	page->cell = NULL;
}

void cm_page_map_fini(struct cm_page_map *map)
{
	uint64_t i, page;

	if (!map->top)
		return;
	for (i = map->low; i < map->high; i++) {
		if (!map->top[i])
			continue;
		for (page = 0; page < LEAF_PAGES; page++)
			drop_cells(&map->top[i][page]);
		(void)munmap(map->top[i], LEAF_BYTES);
	}
	(void)munmap(map->top, TOP_BYTES);
	map->top = NULL;
}

static struct cm_page *page_of(struct cm_page_map *map, uint64_t page)
{
	uint64_t at = page >> CM_PAGE_LEAF_BITS;
	struct cm_page **slot = &map->top[at];

	if (!*slot) {
		struct cm_page *leaf = cm_sparse_map(LEAF_BYTES);

		if (!leaf)
			return NULL;
		/* Release: pairs with the acquire in cm_page_map_look. */
		__atomic_store_n(slot, leaf, __ATOMIC_RELEASE);
		if (map->low == map->high)
			map->low = map->high = at;
		if (at < map->low)
			map->low = at;
		if (at >= map->high)
			map->high = at + 1;
	}
	return &(*slot)[page & (LEAF_PAGES - 1)];
}

/* Gives the page cells for blocks of the small pool, too. What is or was in use stays known, as a
 * block is entered at its first use alone. */
static int divide(const struct cm_page_map *map, struct cm_page *page, uint64_t number)
{
	uint32_t *cell = mmap(NULL, CELL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
	const struct cm_block *block;
	uint32_t i;

	if (cell == MAP_FAILED)
		return -ENOMEM;
	page->cell = cell;
	page->shift = CM_GRAIN_SHIFT;
	for (i = 0; i < CM_PAGE_LARGE_CELLS; i++) {
		block = &map->block[page->own[i]];
		if (block->addr >> CM_PAGE_SHIFT == number)
			*cm_page_cell(page, block->addr) = page->own[i];
	}
	return 0;
}

static void note_device(struct cm_page *page, uint8_t mine)
{
	if (page->device == CM_PAGE_NONE)
		__atomic_store_n(&page->device, mine, __ATOMIC_RELAXED);
	else if (page->device != mine)
		__atomic_store_n(&page->device, CM_PAGE_MIXED, __ATOMIC_RELAXED);
	__atomic_store_n(&page->owner, mine, __ATOMIC_RELAXED);
}

static int enter(struct cm_page_map *map, uint64_t number, uint8_t mine, bool small)
{
	struct cm_page *page = page_of(map, number);

	if (!page)
		return -ENOMEM;
	if (page->segments && page->owner != mine)
		return -EBUSY;
	if (!page->segments) {
		memset(page->own, 0, sizeof(page->own));
		page->cell = page->own;
		page->shift = CM_PAGE_LARGE_SHIFT;
	}
	if (small && page->cell == page->own && divide(map, page, number))
		return -ENOMEM;
	note_device(page, mine);
	page->segments++;
	return 0;
}

static void leave(struct cm_page *page)
{
	assert(page->segments);
	if (--page->segments)
		return;
	__atomic_store_n(&page->owner, CM_PAGE_NONE, __ATOMIC_RELAXED);
	drop_cells(page);
}

static void leave_pages(struct cm_page_map *map, uint64_t page, uint64_t end)
{
	for (; page < end; page++)
		leave(page_of(map, page));
}

int cm_page_map_add(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t device,
		    bool small)
{
	const uint64_t first = addr >> CM_PAGE_SHIFT, last = (addr + bytes - 1) >> CM_PAGE_SHIFT;
	uint64_t i;
	int err;

	if (last >> (CM_PAGE_TOP_BITS + CM_PAGE_LEAF_BITS) || last < first)
		return -ERANGE;
	for (i = first; i <= last; i++) {
		err = enter(map, i, (uint8_t)(device + 1), small);
		if (err) {
			leave_pages(map, first, i);
			return err;
		}
	}
	return 0;
}

bool cm_page_map_names(const struct cm_page_map *map, uint64_t addr, uint32_t index)
{
	return *cm_page_cell(cm_page_map_look(map, addr), addr) == index;
}

void cm_page_map_remove(struct cm_page_map *map, uint64_t addr, uint64_t bytes)
{
	leave_pages(map, addr >> CM_PAGE_SHIFT, ((addr + bytes - 1) >> CM_PAGE_SHIFT) + 1);
}

int cm_page_map_move(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t to)
{
	const uint64_t first = addr >> CM_PAGE_SHIFT, last = (addr + bytes - 1) >> CM_PAGE_SHIFT;
	const uint8_t mine = (uint8_t)(to + 1);
	struct cm_page *page;
	uint64_t i;

	for (i = first; i <= last; i++)
		if (page_of(map, i)->segments != 1)
			return -EBUSY;
	for (i = first; i <= last; i++) {
		page = page_of(map, i);
		if (page->device == page->owner)
			__atomic_store_n(&page->device, mine, __ATOMIC_RELAXED);
		__atomic_store_n(&page->owner, mine, __ATOMIC_RELAXED);
	}
	return 0;
}
