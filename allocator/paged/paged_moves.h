/* SPDX-License-Identifier: MIT */
/*
 * Pages that move: out of a free block, to another place or back to the driver. For the page-backed
 * heap alone (paged.h): serving requests and returning memory both take pages from free blocks.
 *
 * A page that was taken out of the tables is stolen: it is still mapped where it was, and only the
 * holder of the paging lock knows of it. The caller holds that lock. For *_locked it also holds the
 * device's lock; for the others, which call the driver, it does not.
 */
#ifndef CM_ALLOCATOR_PAGED_PAGED_MOVES_H
#define CM_ALLOCATOR_PAGED_PAGED_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/base/ops.h"
#include "allocator/state/pages.h"
#include "allocator/state/state.h"

#define CM_PAGED_PARTS 64

/* Pages taken out of the tables, of whole handles, still mapped where they were. */
struct cm_paged_stolen {
	struct {
		struct cm_paged *from;
		struct cm_paged_span pages;
	} part[CM_PAGED_PARTS];
	uint32_t parts;
	uint32_t pages; /* all together */
};

/* The place for a request: the missing pages, and the runs that they touch. */
struct cm_paged_place {
	struct cm_paged_span pages;
	uint32_t left;
	uint32_t right;
	uint32_t most; /* pages of a new handle; 0: the pages are another context's until now */
	uint32_t end;  /* the page that the request may come to share with another one: its handle
			* has no other page */
	uint64_t touched; /* pages on which no block in use lies, the missing ones among them */
};

/* A bit for each heap, by its index. */
struct cm_paged_heaps {
	uint64_t bits[CM_HEAPS_MAX / 64];
};

static inline bool cm_paged_has_heap(const struct cm_paged_heaps *heaps, const struct cm_heap *heap)
{
	return heaps->bits[heap->index / 64] >> heap->index % 64 & 1;
}

/* The heaps of a device whose last barrier was passed: no work can touch their free memory, as long
 * as the event lock is held. Asks the driver; the device's lock is not held. */
void cm_paged_find_idle_event_locked(struct cm_device *device, struct cm_paged_heaps *ret_heaps);

/* What a range and its table take of the process's own addresses. */
static inline size_t cm_paged_table_bytes(uint64_t range_bytes)
{
	return sizeof(struct cm_paged) + range_bytes / CM_PAGED_PAGE * sizeof(struct cm_paged_page);
}

/* Stores with the first and last page of a run which segment it is, and `block`, any block of
 * the run, from which the search for its last block starts; 0: there is no run. */
void cm_paged_tag_run_locked(struct cm_heap *heap, struct cm_paged *paged, uint32_t block);

/* Shortens pages of whole handles to the last ones: as few handles as have `least` pages. */
void cm_paged_keep_last(const struct cm_paged *paged, struct cm_paged_span *pages, uint32_t least);

/* The last pages of a free block whose handles lie wholly in it: as few handles as have `least`
 * pages, or all; count 0: none. */
struct cm_paged_span cm_paged_whole_pages_locked(const struct cm_cache *cache,
						 const struct cm_paged *paged,
						 const struct cm_block *block, uint32_t least);

/* Makes pages of the free block `index` stolen pages; false: no room or no rows, nothing was
 * changed. */
bool cm_paged_cut_locked(struct cm_heap *heap, struct cm_paged *paged, uint32_t index,
			 struct cm_paged_span pages, struct cm_paged_stolen *stolen);

/* Maps the pages of a place, which are in no run, all or none: stolen handles first, if they fit,
 * then new ones. The remaining stolen handles go to the driver. 0 or the driver's code. */
int cm_paged_map(struct cm_heap *heap, struct cm_paged *paged, const struct cm_paged_place *place,
		 struct cm_paged_stolen *stolen);

/* Unmaps pages that are in no run, and returns them to the driver. */
void cm_paged_unmap(struct cm_device *device, struct cm_paged *paged, struct cm_paged_span pages);

/* Returns all stolen pages to the driver. Returns their bytes. */
uint64_t cm_paged_give_back(struct cm_device *device, struct cm_paged_stolen *stolen);

/* Returns a range that no heap has any more to the driver, with its pages, and unmaps its table. */
void cm_paged_return_range(struct cm_device *device, struct cm_paged *paged);

#endif
