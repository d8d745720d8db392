/* SPDX-License-Identifier: MIT */
#include "allocator/ptr_map.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "allocator/size_class.h"

#define FIRST_SLOTS 4096

/* Addresses are multiples of 512: the bits above, spread by a multiplication (Fibonacci hashing). */
static uint64_t home(const struct cm_ptr_map *map, uint64_t addr)
{
	return ((addr >> CM_GRAIN_SHIFT) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & map->mask;
}

static struct cm_ptr_slot *map_slots(uint64_t slots)
{
	void *memory = mmap(NULL, slots * sizeof(struct cm_ptr_slot), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int grow(struct cm_ptr_map *map)
{
	struct cm_ptr_map old = *map;
	uint64_t slots = old.slot ? (old.mask + 1) * 2 : FIRST_SLOTS, i;
	struct cm_ptr_slot *slot = map_slots(slots);

	if (!slot)
		return -ENOMEM;
	map->slot = slot;
	map->mask = slots - 1;
	map->count = 0;
	for (i = 0; old.slot && i <= old.mask; i++)
		if (old.slot[i].addr)
			cm_ptr_map_add(map, old.slot[i].addr, old.slot[i].index);
	cm_ptr_map_fini(&old);
	return 0;
}

int cm_ptr_map_reserve(struct cm_ptr_map *map)
{
	if (map->slot && map->count * 2 <= map->mask)
		return 0;
	return grow(map);
}

void cm_ptr_map_add(struct cm_ptr_map *map, uint64_t addr, uint32_t index)
{
	uint64_t i = home(map, addr);

	while (map->slot[i].addr)
		i = (i + 1) & map->mask;
	map->slot[i].addr = addr;
	map->slot[i].index = index;
	map->count++;
}

/* The slot of an address, or mask + 1. */
static uint64_t find_slot(const struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t i;

	if (!map->slot)
		return map->mask + 1;
	for (i = home(map, addr); map->slot[i].addr; i = (i + 1) & map->mask)
		if (map->slot[i].addr == addr)
			return i;
	return map->mask + 1;
}

uint32_t cm_ptr_map_find(const struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t i = find_slot(map, addr);

	return map->slot && i <= map->mask ? map->slot[i].index : 0;
}

uint32_t cm_ptr_map_remove(struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t hole = find_slot(map, addr), i;
	uint32_t index;

	if (!map->slot || hole > map->mask)
		return 0;
	index = map->slot[hole].index;
	/* Whatever stands behind and would have liked to stand at the hole or before moves up. */
	for (i = (hole + 1) & map->mask; map->slot[i].addr; i = (i + 1) & map->mask) {
		uint64_t wish = home(map, map->slot[i].addr);

		if (((i - wish) & map->mask) >= ((i - hole) & map->mask)) {
			map->slot[hole] = map->slot[i];
			hole = i;
		}
	}
	map->slot[hole].addr = 0;
	map->count--;
	return index;
}

void cm_ptr_map_fini(struct cm_ptr_map *map)
{
	if (map->slot)
		(void)munmap(map->slot, (map->mask + 1) * sizeof(*map->slot));
	map->slot = NULL;
}
