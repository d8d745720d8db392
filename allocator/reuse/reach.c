/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/reach.h"

#include <assert.h>
#include <stddef.h>

#include "allocator/state/reached.h"

bool cm_reach_has_event_locked(const struct cm_device *device, const struct cm_device *by)
{
	assert(cm_lock_is_held(&device->cache->event_lock));
	return by->first == device->first ||
	       cm_reach_is_open(&device->first->reach[by->first->index]) ||
	       cm_device_is_shared(device);
}

bool cm_reach_is_named_event_locked(const struct cm_device *device)
{
	uint32_t i, n = atomic_load_explicit(&device->cache->devices, memory_order_acquire);

	assert(cm_lock_is_held(&device->cache->event_lock));
	for (i = 0; i < n; i++)
		if (cm_reach_is_open(&device->first->reach[i]))
			return true;
	return false;
}

bool cm_reach_is_alone_event_locked(const struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	const struct cm_heap *each;
	uint32_t at = 0;

	assert(cm_lock_is_held(&device->cache->event_lock));
	/* The usual case, and the one that is short. */
	if (atomic_load_explicit(&device->cache->contexts, memory_order_relaxed) == 1)
		return !(cm_heap_flags(heap) & CM_HEAP_SHARED);
	while ((each = cm_device_next_heap(device, &at)))
		if (each->first != heap->first || cm_heap_flags(each) & CM_HEAP_SHARED)
			return false;
	return !cm_reach_is_named_event_locked(device);
}

struct cm_reach *cm_reach_open_event_locked(struct cm_device *device, const struct cm_device *by,
					    uint64_t *ret_number)
{
	struct cm_reach *reach = &device->first->reach[by->first->index];
	/* In this order: where both are equal, no submission was under way when `ended` was read.
	 * Acquire: the events of the caller come behind these submissions. */
	const uint64_t ended = atomic_load_explicit(&reach->ended, memory_order_acquire);

	if (!cm_reach_is_open(reach) ||
	    ended != atomic_load_explicit(&reach->begun, memory_order_relaxed))
		return NULL;
	*ret_number = ended;
	return reach;
}

void cm_reach_close_event_locked(struct cm_reach *reach, uint64_t number)
{
	if (atomic_load_explicit(&reach->done, memory_order_relaxed) < number)
		atomic_store_explicit(&reach->done, number, memory_order_relaxed);
}

void cm_reach_open_all_event_locked(struct cm_device *by)
{
	struct cm_cache *cache = by->cache;
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	struct cm_reach *reach;

	assert(cm_lock_is_held(&cache->event_lock));
	for (i = 0; i < n; i++) {
		if (cache->device[i]->first == by->first || !cm_device_is_first(cache->device[i]))
			continue;
		reach = &cache->device[i]->reach[by->first->index];
		atomic_fetch_add_explicit(&reach->begun, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&reach->ended, 1, memory_order_release);
	}
}

/* Without contexts no event could show it. */
void cm_reach_forget_context_event_locked(const struct cm_heap *gone)
{
	struct cm_device *by = gone->device;
	uint32_t i, n = atomic_load_explicit(&by->cache->devices, memory_order_acquire);
	struct cm_reach *reach;
	uint64_t number = 0;
	uint32_t at = 0;
	const struct cm_heap *heap;

	while ((heap = cm_device_next_heap(by, &at)))
		if (heap->first != gone->first)
			return;
	for (i = 0; i < n; i++) {
		reach = cm_reach_open_event_locked(by->cache->device[i], by, &number);
		if (reach)
			cm_reach_close_event_locked(reach, number);
	}
}
