/* SPDX-License-Identifier: MIT */
#include "allocator/state/report.h"

#include <errno.h>

#include "allocator/cache.h"
#include "allocator/state/limit.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

uint32_t cm_heap_device(const struct cm_heap *heap)
{
	return heap->device->first->index;
}

int cm_cache_read_device(struct cm_cache *cache, uint32_t row, struct cm_device_row *ret_row)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (!device)
		return -ENOENT;
	cm_shards_read(device->first, ret_row);
	return 0;
}

/* Resets all shards of the device at one moment. */
static void reset(struct cm_cache *cache, uint32_t row, void (*reset_one)(struct cm_device *device))
{
	struct cm_device *device = cm_cache_device(cache, row), *each;

	if (!device)
		return;
	cm_shards_stop(device->first);
	cm_shards_begin_move_locked(device->first);
	for (each = device->first; each; each = cm_device_next_shard(each))
		reset_one(each);
	cm_shards_end_move_locked(device->first);
	cm_shards_resume(device->first);
}

static void reset_peak(struct cm_device *device)
{
	cm_counters_reset_peak(device->row);
}

void cm_cache_reset_peak(struct cm_cache *cache, uint32_t row)
{
	reset(cache, row, reset_peak);
}

static void reset_accumulated(struct cm_device *device)
{
	cm_counters_reset_accumulated(device->row);
	device->reset = true;
}

void cm_cache_reset_accumulated(struct cm_cache *cache, uint32_t row)
{
	reset(cache, row, reset_accumulated);
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
			     uint64_t key, int64_t bytes)
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
	/* Managed memory may leave the device, and a pool may keep what is freed to it. */
	if (kind != CM_UNCACHED_MANAGED && kind != CM_UNCACHED_ASYNC)
		cm_counters_note_driver_use(device->first->row, bytes);
	cm_device_note_locked(device, bytes >= 0 ? CM_ACTION_OUTSIDE_ALLOC : CM_ACTION_OUTSIDE_FREE,
			      (enum cm_pool)kind, 0, cm_thread.stack, cm_cache_tick(cache), key,
			      (uint64_t)(bytes >= 0 ? bytes : -bytes));
	cm_counters_end(device->row);
	cm_lock_release(&device->lock);
}

void cm_cache_count(struct cm_cache *cache, uint32_t row, enum cm_scalar scalar, int64_t n)
{
	struct cm_device *device = cm_cache_device(cache, row);

	if (device)
		cm_device_count(device, scalar, n);
}

void cm_device_count(struct cm_device *device, enum cm_scalar scalar, int64_t n)
{
	cm_lock_acquire(&device->lock);
	cm_counters_begin(device->row);
	cm_counters_count(device->row, scalar, n);
	cm_counters_end(device->row);
	cm_lock_release(&device->lock);
}

bool cm_device_has_cached(struct cm_device *device)
{
	return CM_WITH_LOCK(&device->lock,
			    cm_stat_current(device->row, CM_STAT_RESERVED_BYTES) >
				    cm_stat_current(device->row, CM_STAT_ALLOCATED_BYTES));
}

bool cm_cache_wants_close(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->wants_close, memory_order_relaxed);
}

uint64_t cm_cache_returns(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->returns, memory_order_acquire);
}

bool cm_cache_may_have(struct cm_cache *cache, uint32_t row, uint64_t bytes)
{
	const struct cm_device *device = cm_cache_device(cache, row);

	return device && bytes <= device->row->total_bytes &&
	       (!cm_limit_bytes(device) || bytes <= cm_limit_bytes(device));
}

bool cm_shards_have_cached(struct cm_device *first)
{
	struct cm_device *each = first;

	while (each && !cm_device_has_cached(each))
		each = cm_device_next_shard(each);
	return each;
}

bool cm_cache_has_cached(struct cm_cache *cache, uint32_t row)
{
	return cm_shards_have_cached(cm_cache_device(cache, row));
}
