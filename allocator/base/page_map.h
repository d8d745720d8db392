/* SPDX-License-Identifier: MIT */
/*
 * From addresses to devices and blocks, by pages of 2 MiB of address space.
 *
 * Which device's memory an address may belong to: a byte of its page, read without a lock. It
 * answers "not ours" at once for most foreign pointers, and names the device whose lock decides for
 * the rest. It is never cleared: a page that we once had costs a later owner only a look at its
 * cells.
 *
 * Which block in use starts at an address: a cell of its page holds the block's row. A page with
 * memory of the small pool has a cell for every 512 bytes, 16 KiB in all. Any other page has one
 * for each MiB, since a block in use is larger than that. Cells are never cleared: they name the
 * last block that was allocated there, and its row says whether it is in use and where it starts.
 * So a block that was in use before is still named, as long as its row starts there. Cells exist as
 * long as the page belongs to a segment. A page belongs to one device at a time.
 *
 * A free would wait for the page's line, then for the cell's. So each device has a small table as
 * well: by a hash of the address, the row of the block that was allocated last. Another block that
 * has the same hash takes its place; then the page is asked.
 */
#ifndef CM_ALLOCATOR_BASE_PAGE_MAP_H
#define CM_ALLOCATOR_BASE_PAGE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/size_class.h"
#include "stats/layout.h"

#define CM_PAGE_SHIFT 21
#define CM_PAGE_BYTES (UINT64_C(1) << CM_PAGE_SHIFT)
#define CM_PAGE_NONE  0   /* never ours */
#define CM_PAGE_MIXED 255 /* several devices; other values: device row + 1 */

#define CM_PAGE_LEAF_BITS 14
#define CM_PAGE_TOP_BITS  22 /* 57-bit addresses */

#define CM_PAGE_LARGE_SHIFT 20 /* bytes to a cell, as a power of two */
#define CM_PAGE_LARGE_CELLS (1u << (CM_PAGE_SHIFT - CM_PAGE_LARGE_SHIFT))
#define CM_PAGE_SMALL_CELLS (1u << (CM_PAGE_SHIFT - CM_GRAIN_SHIFT))

#define CM_RECENT_BITS 14 /* of the hash: 64 KiB */

/* Changed with the tables' lock held, and that of the device that has the page or gets it. */
struct cm_page {
	_Alignas(32) uint32_t *cell; /* `own`, or a mapping of CM_PAGE_SMALL_CELLS */
	uint32_t own[CM_PAGE_LARGE_CELLS];
	uint32_t segments; /* that have a part of the page */
	uint8_t shift;     /* bytes to a cell, as a power of two */
	uint8_t owner;     /* row + 1 of the device that has these, 0: none; read without a lock */
	uint8_t device;    /* see CM_PAGE_MIXED; read without a lock */
};

struct cm_page_map {
	struct cm_page **top;   /* CM_PAGE_TOP_BITS, mapped on demand by the kernel */
	struct cm_block *block; /* the block table */
	uint64_t low;           /* leaves stand at [low, high) of `top` */
	uint64_t high;
};

/* Of a device, whose lock is held. Each row that it names is a block of the device; 0: none. */
struct cm_recent {
	uint32_t row[1u << CM_RECENT_BITS];
};

/* 0 or -ENOMEM. */
int cm_page_map_init(struct cm_page_map *map, struct cm_block *table);
void cm_page_map_fini(struct cm_page_map *map);

/*
 * Notes that [addr, addr + bytes) is a segment of the device row; `small`: of the small pool. 0 or
 * -ENOMEM; -ERANGE beyond 57 bits; -EBUSY: another device has memory in one of the pages, and
 * nothing was noted. The tables' lock and the device's are held, here and for the removal.
 */
int cm_page_map_add(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t device,
		    bool small);
/* All or a part of what was added is no segment any more. */
void cm_page_map_remove(struct cm_page_map *map, uint64_t addr, uint64_t bytes);

/* A segment that was added belongs to another device row from now on. The locks of both devices are
 * held, and the tables' lock. -EBUSY: it shares a page with another one, and nothing was moved. */
int cm_page_map_move(struct cm_page_map *map, uint64_t addr, uint64_t bytes, uint32_t to);

/* The page of an address, or NULL. */
CM_ALWAYS_INLINE struct cm_page *cm_page_map_look(const struct cm_page_map *map, uint64_t addr)
{
	const uint64_t page = addr >> CM_PAGE_SHIFT;
	/* Beyond 57 bits it is the leaf of another address, at which the block does not start.
	 * Acquire: pairs with the release in cm_page_map_add, so the leaf's bytes are seen. */
	struct cm_page *leaf = __atomic_load_n(
		&map->top[page >> CM_PAGE_LEAF_BITS & ((1u << CM_PAGE_TOP_BITS) - 1)],
		__ATOMIC_ACQUIRE);

	return CM_LIKELY(leaf) ? &leaf[page & ((1u << CM_PAGE_LEAF_BITS) - 1)] : NULL;
}

/* The device whose memory may be at the address, see CM_PAGE_MIXED. Without a lock. */
static inline uint8_t cm_page_map_get(const struct cm_page_map *map, uint64_t addr)
{
	const struct cm_page *page = cm_page_map_look(map, addr);

	return page && !(addr >> (CM_PAGE_SHIFT + CM_PAGE_LEAF_BITS + CM_PAGE_TOP_BITS))
		       ? __atomic_load_n(&page->device, __ATOMIC_RELAXED)
		       : CM_PAGE_NONE;
}

/* The device that has the page now, row + 1. Without a lock. */
static inline uint8_t cm_page_map_owner(const struct cm_page_map *map, uint64_t addr)
{
	const struct cm_page *page = cm_page_map_look(map, addr);

	return page ? __atomic_load_n(&page->owner, __ATOMIC_RELAXED) : CM_PAGE_NONE;
}

CM_ALWAYS_INLINE uint32_t *cm_page_cell(const struct cm_page *page, uint64_t addr)
{
	return &page->cell[(addr & (CM_PAGE_BYTES - 1)) >> page->shift];
}

/* A block of a segment that was added comes into use for the first time. The device's lock is
 * held. */
CM_ALWAYS_INLINE void cm_page_map_enter(const struct cm_page_map *map, uint64_t addr,
					uint32_t index)
{
	const uint64_t page = addr >> CM_PAGE_SHIFT;

	*cm_page_cell(&map->top[page >> CM_PAGE_LEAF_BITS][page & ((1u << CM_PAGE_LEAF_BITS) - 1)],
		      addr) = index;
}

/* The place of the block that starts at the address. */
CM_ALWAYS_INLINE uint32_t *cm_recent_at(struct cm_recent *recent, uint64_t addr)
{
	/* The golden section of 2^20: blocks side by side share cache lines, as their cells do, and
	 * pages are spread. */
	return &recent->row[(uint32_t)(addr >> CM_GRAIN_SHIFT) * UINT32_C(400521) >>
			    (32 - CM_RECENT_BITS)];
}

/* Whether the cell of a block of a segment that was added names its row. The device's lock is
 * held. */
bool cm_page_map_names(const struct cm_page_map *map, uint64_t addr, uint32_t index);

/* The row of the block in use that starts at the address and belongs to the device row, whose lock
 * is held; 0: there is none. */
CM_ALWAYS_INLINE uint32_t cm_page_map_find(const struct cm_page_map *map, uint32_t device,
					   uint64_t addr)
{
	const struct cm_page *page = cm_page_map_look(map, addr);
	const struct cm_block *block;
	uint32_t index;

	if (CM_UNLIKELY(!page || __atomic_load_n(&page->owner, __ATOMIC_RELAXED) != device + 1))
		return 0;
	index = *cm_page_cell(page, addr);
	block = &map->block[index];
	if (CM_UNLIKELY(block->addr != addr || block->state != CM_BLOCK_LIVE))
		return 0;
	/* Row 0 is never in use; so the caller's check of the result costs nothing. */
	if (!index)
		__builtin_unreachable();
	return index;
}

/* The same with the device's table. */
CM_ALWAYS_INLINE uint32_t cm_page_map_find_recent(const struct cm_page_map *map,
						  struct cm_recent *recent, uint32_t device,
						  uint64_t addr)
{
	const uint32_t index = *cm_recent_at(recent, addr);
	const struct cm_block *block = &map->block[index];

	if (CM_LIKELY(block->addr == addr && block->state == CM_BLOCK_LIVE)) {
		if (!index)
			__builtin_unreachable();
		return index;
	}
	return cm_page_map_find(map, device, addr);
}

#endif
