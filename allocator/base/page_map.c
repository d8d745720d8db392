/* SPDX-License-Identifier: MIT */
#include "allocator/base/page_map.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "stats/sparse.h"

#define TOP_BYTES  (sizeof(uint8_t *) << CM_PAGE_TOP_BITS)
#define LEAF_BYTES (1u << CM_PAGE_LEAF_BITS)

static void *map_memory(size_t bytes)
{
	return cm_sparse_map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

int cm_page_map_init(struct cm_page_map *map)
{
	map->top = map_memory(TOP_BYTES);
	return map->top ? 0 : -ENOMEM;
}

void cm_page_map_fini(struct cm_page_map *map)
{
	uint64_t i;

	if (!map->top)
		return;
	for (i = map->low; i < map->high; i++)
		if (map->top[i])
			(void)munmap(map->top[i], LEAF_BYTES);
	(void)munmap(map->top, TOP_BYTES);
	map->top = NULL;
}

static uint8_t *leaf_of(struct cm_page_map *map, uint64_t page)
{
	uint64_t at = page >> CM_PAGE_LEAF_BITS;
	uint8_t **slot = &map->top[at];

	if (!*slot) {
		uint8_t *leaf = map_memory(LEAF_BYTES);

		if (!leaf)
			return NULL;
		/* Release: pairs with the acquire in cm_page_map_get. */
		__atomic_store_n(slot, leaf, __ATOMIC_RELEASE);
		if (map->low == map->high)
			map->low = map->high = at;
		if (at < map->low)
			map->low = at;
		if (at >= map->high)
			map->high = at + 1;
	}
	return *slot;
}

int cm_page_map_add(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t device)
{
	uint64_t page = addr >> CM_PAGE_SHIFT, last = (addr + bytes - 1) >> CM_PAGE_SHIFT;
	uint8_t mine = (uint8_t)(device + 1), *leaf, *entry;

	if (last >> (CM_PAGE_TOP_BITS + CM_PAGE_LEAF_BITS) || last < page)
		return -ERANGE;
	for (; page <= last; page++) {
		leaf = leaf_of(map, page);
		if (!leaf)
			return -ENOMEM;
		entry = &leaf[page & (LEAF_BYTES - 1)];
		if (*entry == CM_PAGE_NONE)
			__atomic_store_n(entry, mine, __ATOMIC_RELAXED);
		else if (*entry != mine)
			__atomic_store_n(entry, CM_PAGE_MIXED, __ATOMIC_RELAXED);
	}
	return 0;
}
