/* SPDX-License-Identifier: MIT */
/*
 * The rings of events from outside the allocator: on and off, emptied; and all tables at rest for a
 * moment.
 */
#include <errno.h>

#include "allocator/cache.h"
#include "allocator/heap.h"
#include "stats/books.h"
#include "stats/region.h"

void cm_cache_open_ring(struct cm_cache *cache, enum cm_table table, uint32_t index,
			struct cm_ring *ret_ring)
{
	const uint32_t rows = cache->region->header->table[table].ring;

	if (!atomic_load_explicit(&cache->events, memory_order_relaxed) || !rows ||
	    cm_region_commit(cache->region, table, (index + 1) * rows))
		return;
	ret_ring->mask = rows - 1;
	ret_ring->row = cm_region_row(cache->region, table, index * rows);
}

int cm_cache_record_events(struct cm_cache *cache, bool on)
{
	struct cm_ring *ring;
	uint32_t i, n;
	bool missing = false;

	/* The turn: no device is added meanwhile. */
	cm_lock_acquire(&cache->turn);
	atomic_store_explicit(&cache->events, on, memory_order_relaxed);
	n = atomic_load_explicit(&cache->devices, memory_order_relaxed);
	for (i = 0; i < n; i++) {
		ring = &cache->device[i]->ring;
		cm_lock_acquire(&cache->device[i]->lock);
		ring->row = NULL;
		cm_cache_open_ring(cache, CM_TABLE_EVENT, i, ring);
		missing |= on && !ring->row;
		cm_lock_release(&cache->device[i]->lock);
	}
	ring = &cache->pinned.ring;
	cm_lock_acquire(&cache->pinned.lock);
	ring->row = NULL;
	cm_cache_open_ring(cache, CM_TABLE_HOST_EVENT, 0, ring);
	missing |= on && !ring->row;
	cm_lock_release(&cache->pinned.lock);
	cm_lock_release(&cache->turn);
	return missing ? -ENOSPC : 0;
}

static void clear_device(struct cm_device *device)
{
	cm_books_begin(device->row);
	device->row->event_cleared = device->row->event_next;
	cm_books_end(device->row);
}

void cm_cache_clear_events(struct cm_cache *cache)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	struct cm_host_row *host = cache->pinned.row;

	for (i = 0; i < n; i++) {
		cm_lock_acquire(&cache->device[i]->lock);
		clear_device(cache->device[i]);
		cm_lock_release(&cache->device[i]->lock);
	}
	cm_lock_acquire(&cache->pinned.lock);
	cm_seq_begin(&host->seq);
	host->event_cleared = host->event_next;
	cm_seq_end(&host->seq);
	cm_lock_release(&cache->pinned.lock);
}

/* A device that is added meanwhile holds nothing as yet. */
void cm_cache_hold(struct cm_cache *cache) CM_UNCHECKED
{
	uint32_t i;

	cm_lock_acquire(&cache->pinned.lock);
	cache->held = atomic_load(&cache->devices);
	for (i = 0; i < cache->held; i++)
		cm_lock_acquire(&cache->device[i]->lock);
	cm_lock_acquire(&cache->tables);
}

void cm_cache_resume(struct cm_cache *cache) CM_UNCHECKED
{
	uint32_t i;

	cm_lock_release(&cache->tables);
	for (i = cache->held; i-- > 0;)
		cm_lock_release(&cache->device[i]->lock);
	cm_lock_release(&cache->pinned.lock);
}
