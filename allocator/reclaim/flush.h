/* SPDX-License-Identifier: MIT */
/*
 * Returns all idle memory of a device to the driver.
 */
#ifndef CM_ALLOCATOR_RECLAIM_FLUSH_H
#define CM_ALLOCATOR_RECLAIM_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/*
 * Of all shards of the device, whose first one is given.
 *
 * Waits for freed blocks, at most `limit_ns`, and returns every wholly free segment and page to the
 * driver; adds their bytes to *bytes. The gate is entered. -ETIME: work does not end within the
 * limit, and nothing was returned. -EBUSY: a capture has begun meanwhile, and the caller is outside
 * the gate.
 */
CM_NODISCARD int cm_flush_device(struct cm_device *device, uint64_t limit_ns, uint64_t *bytes);

#endif
