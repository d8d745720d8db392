/* SPDX-License-Identifier: MIT */
/*
 * Where a request gets new pages: the place at which the fewest are missing, or are touched. For
 * the page-backed heap alone (paged.h). The caller holds the paging lock, and the device's lock for
 * *_locked. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_PAGED_PAGED_PLACE_H
#define CM_ALLOCATOR_PAGED_PAGED_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/paged/paged_moves.h"

/* A request that no ready block of its context serves. */
struct cm_paged_request {
	struct cm_heap *heap;
	uint64_t ctx;
	struct cm_paged *paged; /* where its memory is to be */
	uint64_t size;          /* `bytes` rounded */
	uint64_t bytes;
	uint64_t *ret_addr;
};

/* False: the context is gone, and the heap is unused or another context's. */
static inline bool cm_paged_stands_locked(const struct cm_paged_request *request)
{
	return request->ctx && request->heap->ctx == request->ctx;
}

/* The run whose first page this is, 0: the page is in none, and lost or about to be unmapped. */
static inline uint32_t cm_paged_run_at(const struct cm_paged *paged, uint32_t page)
{
	return paged->page[page].run;
}

/* The run whose last page is the one before, 0: as above. */
static inline uint32_t cm_paged_run_before(const struct cm_paged *paged, uint32_t page)
{
	return page ? cm_paged_run_at(paged, page - 1) : 0;
}

/* The last block of a run if it is free, and the first one; else 0, as for no run. */
uint32_t cm_paged_free_tail(struct cm_heap *heap, struct cm_paged *paged, uint32_t run);
uint32_t cm_paged_free_head(struct cm_heap *heap, uint32_t run);

/* The best place for the request: if `packed` where it touches the fewest pages, else where it
 * lacks the fewest. False: there is none, or the context is gone. The device's lock is not held. */
bool cm_paged_choose_place(const struct cm_paged_request *request, bool packed,
			   struct cm_paged_place *ret_place);

/* Enters the mapped pages of a place; *ret_block is the free block that contains them. -EAGAIN:
 * meanwhile the context was destroyed, or caching has stopped. -ENOSPC: no rows are left. */
int cm_paged_enter_locked(const struct cm_paged_request *request,
			  const struct cm_paged_place *place, uint32_t *ret_block);

#endif
