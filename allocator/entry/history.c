/* SPDX-License-Identifier: MIT */
/*
 * The rings of events from outside the allocator: on and off, emptied, marked.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* Opens the rings that are switched on and closes the others. The event lock is held, so no device
 * is added meanwhile. -ENOSPC: there is no space for one. */
static int open_rings_event_locked(struct cm_cache *cache, uint64_t events)
{
	const uint32_t n = atomic_load_explicit(&cache->devices, memory_order_relaxed);
	struct cm_ring ring;
	bool missing = false;
	uint32_t i;

	for (i = 0; i < n; i++) {
		/* Its memory is committed before the lock is taken, as that takes a millisecond. */
		cm_cache_open_ring(cache, CM_TABLE_EVENT, i, cache->device[i]->first->index, &ring);
		cm_lock_acquire(&cache->device[i]->lock);
		cache->device[i]->ring = ring;
		cm_lock_release(&cache->device[i]->lock);
		missing |= events >> cache->device[i]->first->index & 1 && !ring.row;
	}
	cm_cache_open_ring(cache, CM_TABLE_HOST_EVENT, 0, 0, &ring);
	cm_lock_acquire(&cache->pinned.lock);
	cache->pinned.ring = ring;
	cm_lock_release(&cache->pinned.lock);
	return missing || (cache->pinned_events && !ring.row) ? -ENOSPC : 0;
}

int cm_cache_record_events(struct cm_cache *cache, uint64_t devices, bool on, uint64_t *ret_devices)
{
	uint64_t events;
	int err;

	cm_lock_acquire(&cache->event_lock);
	events = atomic_load_explicit(&cache->events, memory_order_relaxed);
	events = on ? events | devices : events & ~devices;
	atomic_store_explicit(&cache->events, events, memory_order_relaxed);
	if (devices == CM_ALL_DEVICES)
		cache->pinned_events = on;
	err = open_rings_event_locked(cache, events);
	cm_lock_release(&cache->event_lock);
	*ret_devices = events;
	return err;
}

static void clear_device(struct cm_device *device)
{
	cm_counters_begin(device->row);
	device->row->event_cleared = device->row->event_next;
	cm_counters_end(device->row);
}

void cm_cache_clear_events(struct cm_cache *cache, uint64_t devices)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	struct cm_host_row *host = cache->pinned.row;

	for (i = 0; i < n; i++) {
		if (!(devices >> cache->device[i]->first->index & 1))
			continue;
		cm_lock_acquire(&cache->device[i]->lock);
		clear_device(cache->device[i]);
		cm_lock_release(&cache->device[i]->lock);
	}
	if (devices != CM_ALL_DEVICES)
		return;
	cm_lock_acquire(&cache->pinned.lock);
	cm_seq_begin(&host->seq);
	host->event_cleared = host->event_next;
	cm_seq_end(&host->seq);
	cm_lock_release(&cache->pinned.lock);
}

/* Of all shards, which are stopped. */
static uint64_t active_bytes(const struct cm_device *first)
{
	const struct cm_device *each;
	int64_t bytes = 0;

	for (each = first; each; each = cm_device_next_shard(each))
		bytes += cm_stat_current(each->row, CM_STAT_ACTIVE_BYTES);
	return (uint64_t)bytes;
}

void cm_cache_note_snapshot(struct cm_cache *cache)
{
	const uint64_t tick = cm_cache_tick(cache);
	struct cm_host_row *host = cache->pinned.row;
	struct cm_device *device;
	uint32_t i;

	for (i = 0; i < cache->held; i++) {
		device = cache->device[i];
		if (!cm_device_is_first(device))
			continue;
		cm_counters_begin(device->row);
		cm_device_note_locked(device, CM_ACTION_SNAPSHOT, CM_POOL_ALL, 0, 0, tick, 0,
				      active_bytes(device));
		cm_counters_end(device->row);
	}
	cm_seq_begin(&host->seq);
	cm_ring_add(&cache->pinned.ring, &host->event_next, CM_ACTION_SNAPSHOT, CM_POOL_ALL, 0,
		    cm_origin_of(0), tick, 0, (uint64_t)host->active_bytes.current);
	cm_seq_end(&host->seq);
}
