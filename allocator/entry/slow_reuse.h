/* SPDX-License-Identifier: MIT */
/*
 * The slow path's first steps: memory that the program has freed. Polls, lays a barrier, or waits,
 * as the policy and the device allow.
 */
#ifndef CM_ALLOCATOR_ENTRY_SLOW_REUSE_H
#define CM_ALLOCATOR_ENTRY_SLOW_REUSE_H

#include "allocator/entry/slow_request.h"

/*
 * Serves the request from freed memory. -ENOENT: none serves; -EAGAIN: the context has gone;
 * -EBUSY: a capture has begun meanwhile, and the caller is outside the gate. May block for the
 * device.
 */
int cm_slow_reuse(const struct cm_slow_request *request);

#endif
