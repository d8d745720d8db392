/* SPDX-License-Identifier: MIT */
/*
 * The rings of events; and all tables at rest for a moment.
 */
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
