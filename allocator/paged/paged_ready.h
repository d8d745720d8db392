/* SPDX-License-Identifier: MIT */
/*
 * Requests that ready memory serves: a block of their context, or idle pages of another one. For
 * the page-backed heap alone (paged.h).
 *
 * A handle returns to the driver as a whole, so a block on a small part of a large one would keep
 * all of it. If the end of a request would divide a larger handle than fragmentation.h lets it, the
 * handle returns, and others take its place, no larger than the request; the page in which it ends
 * has one of its own. That needs a handle that is idle: if it is not, the request divides it.
 *
 * The caller holds the paging lock, no other one. Both call the driver, and wait for nothing.
 */
#ifndef CM_ALLOCATOR_PAGED_PAGED_READY_H
#define CM_ALLOCATOR_PAGED_PAGED_READY_H

#include "allocator/paged/paged_place.h"

/* Serves the request by the ready block that fits best, if it would divide a handle that is too
 * large. -ENOENT: it would not, or meanwhile the driver has refused the memory. */
int cm_paged_divide(const struct cm_paged_request *request);

/*
 * Serves the request by idle pages of other contexts of the device: pages are the device's, and
 * their addresses hold in all its contexts. What is ready has waited for the work of all of these
 * (reach.h), but for what is ready behind a barrier. On a full device none change hands: there all
 * that is idle goes back first, and lies where it is needed then. -ENOENT: there are none.
 */
int cm_paged_adopt(const struct cm_paged_request *request);

#endif
