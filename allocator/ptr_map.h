/* SPDX-License-Identifier: MIT */
/*
 * Address to block index, for the blocks in use of one device: open addressing with linear
 * probing, at most half full, removal by shifting back. Memory comes from mmap, so that a program
 * that ruins its own heap does not ruin ours. Caller locks.
 */
#ifndef CM_ALLOCATOR_PTR_MAP_H
#define CM_ALLOCATOR_PTR_MAP_H

#include <stdint.h>

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

/* Makes room for one more. 0 or -ENOMEM; the map stays as it was. */
int cm_ptr_map_reserve(struct cm_ptr_map *map);
/* Adds an address that is not in the map; room was reserved. */
void cm_ptr_map_add(struct cm_ptr_map *map, uint64_t addr, uint32_t index);
/* The index of an address, or 0. */
uint32_t cm_ptr_map_find(const struct cm_ptr_map *map, uint64_t addr);
/* Removes an address and returns its index; 0 where it was not there. */
uint32_t cm_ptr_map_remove(struct cm_ptr_map *map, uint64_t addr);
void cm_ptr_map_fini(struct cm_ptr_map *map);

#endif
