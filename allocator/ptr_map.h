/* SPDX-License-Identifier: MIT */
/*
 * Address to block index, for the blocks in use of one device: open addressing with linear
 * probing, at most half full, removal by shifting back. Memory comes from mmap, so that a program
 * that ruins its own heap does not ruin ours. Caller locks.
 */
#ifndef CM_ALLOCATOR_PTR_MAP_H
#define CM_ALLOCATOR_PTR_MAP_H

#include <stdint.h>

#include "allocator/attr.h"

struct cm_ptr_slot {
	uint64_t addr; /* 0: empty; device memory never starts there */
	uint32_t index;
	uint32_t pad;
};

struct cm_ptr_map {
	struct cm_ptr_slot *slot;
	uint64_t mask;  /* slots - 1, a power of two */
	uint64_t count; /* in use, at most half of the slots */
};

/* Makes room for one more where there is none left. 0 or -ENOMEM; the map stays as it was. */
int cm_ptr_map_grow(struct cm_ptr_map *map);
void cm_ptr_map_fini(struct cm_ptr_map *map);

/* 0 or -ENOMEM. */
CM_ALWAYS_INLINE int cm_ptr_map_reserve(struct cm_ptr_map *map)
{
	return CM_LIKELY(map->slot && map->count * 2 <= map->mask) ? 0 : cm_ptr_map_grow(map);
}

/* Addresses are multiples of 512: the bits above, spread by a multiplication (Fibonacci hashing). */
CM_ALWAYS_INLINE uint64_t cm_ptr_map_home(const struct cm_ptr_map *map, uint64_t addr)
{
	return ((addr >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & map->mask;
}

/* Adds an address that is not in the map; room was reserved. */
CM_ALWAYS_INLINE void cm_ptr_map_add(struct cm_ptr_map *map, uint64_t addr, uint32_t index)
{
	uint64_t i = cm_ptr_map_home(map, addr);

	while (map->slot[i].addr)
		i = (i + 1) & map->mask;
	map->slot[i].addr = addr;
	map->slot[i].index = index;
	map->count++;
}

/* The slot of an address; an empty one where it is not there. */
CM_ALWAYS_INLINE uint64_t cm_ptr_map_slot(const struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t i = cm_ptr_map_home(map, addr);

	while (map->slot[i].addr != addr && map->slot[i].addr)
		i = (i + 1) & map->mask;
	return i;
}

/* The index of an address, or 0. */
static inline uint32_t cm_ptr_map_find(const struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t i;

	if (!map->slot)
		return 0;
	i = cm_ptr_map_slot(map, addr);
	return map->slot[i].addr ? map->slot[i].index : 0;
}

/* Removes an address and returns its index; 0 where it was not there. */
CM_ALWAYS_INLINE uint32_t cm_ptr_map_remove(struct cm_ptr_map *map, uint64_t addr)
{
	uint64_t hole, i, wish;
	uint32_t index;

	if (CM_UNLIKELY(!map->slot))
		return 0;
	hole = cm_ptr_map_slot(map, addr);
	if (CM_UNLIKELY(!map->slot[hole].addr))
		return 0;
	index = map->slot[hole].index;
	/* Whatever stands behind and would have liked to stand at the hole or before moves up. */
	for (i = (hole + 1) & map->mask; map->slot[i].addr; i = (i + 1) & map->mask) {
		wish = cm_ptr_map_home(map, map->slot[i].addr);
		if (((i - wish) & map->mask) >= ((i - hole) & map->mask)) {
			map->slot[hole] = map->slot[i];
			hole = i;
		}
	}
	map->slot[hole].addr = 0;
	map->count--;
	return index;
}

#endif
