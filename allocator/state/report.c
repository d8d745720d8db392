/* SPDX-License-Identifier: MIT */
/*
 * The books from outside the allocator: copies, resets, counts of what only passes through.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

uint32_t cm_heap_device(const struct cm_heap *heap)
{
	return heap->device->index;
}

int cm_cache_read_device(struct cm_cache *cache, uint32_t row, struct cm_device_row *ret_row)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (!device)
		return -ENOENT;
	cm_lock_acquire(&device->lock);
	*ret_row = *device->row;
	cm_lock_release(&device->lock);
	return 0;
}

void cm_cache_reset_peak(struct cm_cache *cache, uint32_t row)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (!device)
		return;
	cm_lock_acquire(&device->lock);
	cm_counters_reset_peak(device->row);
	cm_lock_release(&device->lock);
}

void cm_cache_reset_accumulated(struct cm_cache *cache, uint32_t row)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (!device)
		return;
	cm_lock_acquire(&device->lock);
	cm_counters_reset_accumulated(device->row);
	device->reset = true;
	cm_lock_release(&device->lock);
}

void cm_cache_read_host(struct cm_cache *cache, struct cm_host_row *ret_row)
{
	cm_lock_acquire(&cache->pinned.lock);
	*ret_row = *cache->pinned.row;
	cm_lock_release(&cache->pinned.lock);
}

void cm_cache_host_reset_peak(struct cm_cache *cache)
{
	cm_lock_acquire(&cache->pinned.lock);
	cm_host_reset_peak(cache->pinned.row);
	cm_lock_release(&cache->pinned.lock);
}

void cm_cache_host_reset_accumulated(struct cm_cache *cache)
{
	cm_lock_acquire(&cache->pinned.lock);
	cm_host_reset_accumulated(cache->pinned.row);
	cache->pinned.reset = true;
	cm_lock_release(&cache->pinned.lock);
}

void cm_cache_count_uncached(struct cm_cache *cache, uint32_t row, enum cm_uncached_kind kind,
			     int64_t bytes)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (!device)
		return;
	cm_lock_acquire(&device->lock);
	cm_counters_begin(device->row);
	if (bytes >= 0) {
		cm_stat4_raise(&device->row->other_count[kind], 1);
		cm_stat4_raise(&device->row->other_bytes[kind], bytes);
	} else {
		cm_stat4_lower(&device->row->other_count[kind], 1);
		cm_stat4_lower(&device->row->other_bytes[kind], -bytes);
	}
	/* Managed memory is not on the device for good, and a pool may keep what it gets. */
	if (kind != CM_UNCACHED_MANAGED && kind != CM_UNCACHED_ASYNC)
		cm_counters_note_driver_use(device->row, bytes);
	cm_counters_end(device->row);
	cm_lock_release(&device->lock);
}

void cm_cache_count(struct cm_cache *cache, uint32_t row, enum cm_scalar scalar, int64_t n)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (device)
		cm_device_count(device, scalar, n);
}
