/* SPDX-License-Identifier: MIT */
/*
 * The real driver and the real clock, as the allocator wants them (allocator/base/ops.h).
 */
#ifndef CM_INTERPOSE_DRIVER_DRIVER_OPS_H
#define CM_INTERPOSE_DRIVER_DRIVER_OPS_H

#include "allocator/base/ops.h"

const struct cm_driver_ops *cm_driver_ops(void);

/* Whether the driver maps memory of the device in pages of so many bytes. */
bool cm_driver_has_pages(int32_t ordinal, uint64_t bytes);

/* CLOCK_MONOTONIC in nanoseconds. */
uint64_t cm_clock_now_ns(void);

#endif
