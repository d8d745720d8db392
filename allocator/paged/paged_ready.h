/* SPDX-License-Identifier: MIT */
/*
 * Requests that ready memory serves: a block of their context, or idle pages of another one. For
 * the page-backed heap alone (paged.h).
 *
 * A handle returns to the driver as a whole, so a block on a small part of a large one would keep
 * all of it. If the end of a request would divide a larger handle than fragmentation.h lets it, the
 * handle returns, and three take its place: what the request needs of it whole, the page in which
 * the request ends, and the rest. That needs a handle that is idle: if it is not, the request
 * divides it.
 *
 * The caller holds the paging lock, no other one, if nothing else is said. All call the driver;
 * only cm_paged_await_barrier waits for the device.
 */
#ifndef CM_ALLOCATOR_PAGED_PAGED_READY_H
#define CM_ALLOCATOR_PAGED_PAGED_READY_H

#include "allocator/paged/paged_place.h"

/* Serves the request by the ready block that fits best, if it would divide a handle that is too
 * large. -ENOENT: it would not, or meanwhile the driver has refused the memory. */
int cm_paged_divide(const struct cm_paged_request *request);

/* The same by a ready block that was spared, and touches at most so many pages. -ENOENT: there is
 * none, or as above. */
int cm_paged_take_spared(const struct cm_paged_request *request, uint64_t most);

/* Enters the mapped pages of a place and serves the request. -EBUSY: another thread was faster, or
 * the driver has refused memory meanwhile; the pages are entered. Else as cm_paged_enter_locked,
 * and they are not. */
int cm_paged_take_added(const struct cm_paged_request *request, const struct cm_paged_place *place);

/*
 * Before all of these: on a card that fills up a request that needs pages waits until the device
 * has passed the last barrier, at most CM_PATIENCE_NS and once for the same work. Natively the free
 * would have waited for it. Then pages can be moved, and handles be divided. No lock is held, or
 * the reclaim lock alone: then nothing is waited for. 0; -EBUSY: a capture is active, and the
 * caller outside of the gate.
 */
CM_NODISCARD int cm_paged_await_barrier(struct cm_heap *heap);

/*
 * Serves the request by idle pages of other contexts of the device: pages are the device's, and
 * their addresses hold in all its contexts. What is ready has waited for the work of all of these
 * (reach.h), but for what is ready behind a barrier. If none has a free block for it, or seldom in
 * any case, all that they have idle changes hands: free pages of several contexts that lie side by
 * side are one block then, and what fits best is chosen among all. On a full device none change
 * hands: there all that is idle goes back first, and lies where it is needed then. -ENOENT: no
 * block fits.
 */
int cm_paged_adopt(const struct cm_paged_request *request);

#endif
