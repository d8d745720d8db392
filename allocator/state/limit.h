/* SPDX-License-Identifier: MIT */
/*
 * The limit on what the process takes from a device (memory_limit_mb, per_process_memory_fraction),
 * and what it has taken: segments, pages, and memory outside the cache. Memory counts from before
 * the driver allocates it until after the driver has freed it. What contexts, code and graphs take
 * by themselves does not count.
 *
 * Thread-safe and lock-free: check and take are one step, so threads never exceed the limit
 * together, and none fails because another requests too much. Memory is counted even without a
 * limit, since one may be set at any time.
 */
#ifndef CM_ALLOCATOR_STATE_LIMIT_H
#define CM_ALLOCATOR_STATE_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/state/state.h"

/* Bytes that the process may take from the device; 0: any number. */
static inline uint64_t cm_limit_bytes(const struct cm_device *device)
{
	return __atomic_load_n(&device->first->row->allowed_bytes, __ATOMIC_RELAXED);
}

/* Takes `bytes` from what the limit leaves. False: it leaves less, and nothing was taken. */
CM_NODISCARD bool cm_limit_take(struct cm_device *device, uint64_t bytes);

/* The same whatever the limit says, for memory that the process has already. */
void cm_limit_note(struct cm_device *device, uint64_t bytes);

/* Gives bytes back to the limit: the driver has refused them, or has freed them. */
void cm_limit_give(struct cm_device *device, uint64_t bytes);

/* Whether cm_limit_take would refuse now. */
bool cm_limit_refuses(const struct cm_device *device, uint64_t bytes);

/* How much more is taken than the limit allows, which may have been set later. */
uint64_t cm_limit_exceeded(const struct cm_device *device);

/* Take and give for a device row, for memory outside the cache. An unknown row has no limit. */
CM_NODISCARD bool cm_cache_take_limit(struct cm_cache *cache, uint32_t row, uint64_t bytes);
void cm_cache_give_limit(struct cm_cache *cache, uint32_t row, uint64_t bytes);

/* Whether there is any limit. Also before a device is known. */
bool cm_cache_has_limit(const struct cm_cache *cache);

/* The limit of a device row, UINT64_MAX: none, and what has been taken. */
void cm_cache_read_limit(struct cm_cache *cache, uint32_t row, uint64_t *ret_limit,
			 uint64_t *ret_taken);

/*
 * Another limit from now on: UINT64_MAX bytes and a fraction of 1 mean none; the lower one holds.
 * Takes nothing away from the program: what exceeds the limit cannot be requested again once it is
 * given back. Takes the event lock, under which devices are added.
 */
void cm_cache_set_memory_limit(struct cm_cache *cache, uint64_t bytes);
void cm_cache_set_memory_fraction(struct cm_cache *cache, double fraction);

/* Enters the limit in the row of a device that has just been added. */
void cm_limit_apply_event_locked(struct cm_device *device);

#endif
