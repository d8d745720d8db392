/* SPDX-License-Identifier: MIT */
/*
 * The counters of a device, for callers that do not hold its lock: these functions take it. cache.h
 * has what report.c offers to the hooks.
 */
#ifndef CM_ALLOCATOR_STATE_REPORT_H
#define CM_ALLOCATOR_STATE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"
#include "stats/counters.h"

/* What is reserved on the device. Its lock is held: the only function here that does not take
 * it. */
static inline uint64_t cm_device_reserved_locked(const struct cm_device *device)
{
	return (uint64_t)cm_stat_current(device->row, CM_STAT_RESERVED_BYTES);
}

/* Adds to a scalar counter of the device. Takes the lock, too. */
void cm_device_count(struct cm_device *device, enum cm_scalar scalar, int64_t n);

/* Whether more is reserved than allocated. Takes the lock, too. */
bool cm_device_has_cached(struct cm_device *device);
/* The same for any shard of the device, whose first one is given; not if that is NULL. */
bool cm_shards_have_cached(struct cm_device *first);

#endif
