/* SPDX-License-Identifier: MIT */
/*
 * Which device's memory an address may belong to: one byte for each 2 MiB of address space, read
 * without a lock. It answers "not ours" at once for most foreign pointers, and names the device
 * whose lock and pointer map decide for the rest. Entries are never cleared: a page that we once
 * had costs a later owner only a look into the pointer map.
 */
#ifndef CM_ALLOCATOR_BASE_PAGE_MAP_H
#define CM_ALLOCATOR_BASE_PAGE_MAP_H

#include <stdint.h>

#define CM_PAGE_SHIFT 21
#define CM_PAGE_NONE  0   /* never ours */
#define CM_PAGE_MIXED 255 /* several devices; other values: device row + 1 */

#define CM_PAGE_LEAF_BITS 14
#define CM_PAGE_TOP_BITS  22 /* 57-bit addresses */

struct cm_page_map {
	uint8_t **top; /* CM_PAGE_TOP_BITS, mapped on demand by the kernel */
	uint64_t low;  /* leaves stand at [low, high) of it */
	uint64_t high;
};

/* 0 or -ENOMEM. */
int cm_page_map_init(struct cm_page_map *map);
void cm_page_map_fini(struct cm_page_map *map);

/* Notes that [addr, addr + bytes) holds memory of the device row. Not for two threads at once. 0 or
 * -ENOMEM; -ERANGE beyond 57 bits. */
int cm_page_map_add(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t device);

static inline uint8_t cm_page_map_get(const struct cm_page_map *map, uint64_t addr)
{
	uint64_t page = addr >> CM_PAGE_SHIFT;
	uint8_t *leaf;

	if (page >> (CM_PAGE_TOP_BITS + CM_PAGE_LEAF_BITS))
		return CM_PAGE_NONE;
	/* Acquire: pairs with the release in cm_page_map_add, so the leaf's bytes are seen. */
	leaf = __atomic_load_n(&map->top[page >> CM_PAGE_LEAF_BITS], __ATOMIC_ACQUIRE);
	if (!leaf)
		return CM_PAGE_NONE;
	return __atomic_load_n(&leaf[page & ((1u << CM_PAGE_LEAF_BITS) - 1)], __ATOMIC_RELAXED);
}

#endif
