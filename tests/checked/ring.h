/* SPDX-License-Identifier: MIT */
/*
 * The ring around the library, and where a broken variant of it breaks in.
 */
#ifndef CM_TESTS_CHECKED_RING_H
#define CM_TESTS_CHECKED_RING_H

#include "allocator/base/ops.h"

/* Changes what the allocator has for a driver, once, before it first uses it. Weak: nothing. */
void cm_ring_break(struct cm_driver_ops *ops);

#endif
