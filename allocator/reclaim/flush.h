/* SPDX-License-Identifier: MIT */
/*
 * All idle memory of a device goes back to the driver.
 */
#ifndef CM_ALLOCATOR_RECLAIM_FLUSH_H
#define CM_ALLOCATOR_RECLAIM_FLUSH_H

#include <stdint.h>

#include "allocator/state/state.h"

/*
 * Waits for freed blocks for `limit_ns` at most, and gives the driver every wholly free segment and
 * page; so much is added to *bytes. The gate is entered. -ETIME: work is under way that does not
 * end within the limit, and nothing was given back. -EBUSY: a capture has begun meanwhile, and the
 * caller is outside of the gate.
 */
CM_NODISCARD int cm_flush_device(struct cm_device *device, uint64_t limit_ns, uint64_t *bytes);

#endif
