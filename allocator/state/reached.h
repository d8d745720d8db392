/* SPDX-License-Identifier: MIT */
/*
 * Which contexts can reach the memory of a device, as far as it can be told without the event lock:
 * reuse/reach.h has the rules, and what is told under that lock.
 */
#ifndef CM_ALLOCATOR_STATE_REACHED_H
#define CM_ALLOCATOR_STATE_REACHED_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Whether work of a device that names memory of another one may be under way. `begun` is counted
 * before the work can be submitted, and the program frees memory that the work names only after
 * that submission. So the caller, which deals with freed memory, sees the number. */
static inline bool cm_reach_is_open(const struct cm_reach *reach)
{
	return atomic_load_explicit(&reach->begun, memory_order_relaxed) !=
	       atomic_load_explicit(&reach->done, memory_order_relaxed);
}

/* Whether peer access was given to memory of the device. */
static inline bool cm_device_is_shared(const struct cm_device *device)
{
	const struct cm_heap *heap;
	uint32_t at = 0;

	while ((heap = cm_device_next_heap(device, &at)))
		if (cm_heap_flags(heap) & CM_HEAP_SHARED)
			return true;
	return false;
}

/* Whether contexts of other devices can reach memory of the device. Without the event lock the
 * answer may still be "yes" when their work is done. */
static inline bool cm_device_is_reached(const struct cm_device *device)
{
	uint32_t i, n = atomic_load_explicit(&device->cache->devices, memory_order_acquire);

	for (i = 0; i < n; i++)
		if (device->cache->device[i]->first != device->first &&
		    (cm_reach_is_open(&device->first->reach[i]) || cm_device_is_shared(device)))
			return true;
	return false;
}

#endif
