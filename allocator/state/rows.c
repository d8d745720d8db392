/* SPDX-License-Identifier: MIT */
#include "allocator/state/rows.h"

#include "stats/region.h"

void cm_rows_fetch_blocks(struct cm_device *device)
{
	struct cm_cache *cache = device->cache;
	uint32_t i, first, end;

	cm_lock_acquire(&cache->tables);
	/* Whole lines of is_free. */
	first = cache->blocks;
	end = first + CM_SPARE_BATCH;
	if (cm_region_commit(cache->region, CM_TABLE_BLOCK, end))
		end = first;
	cache->blocks = end;
	cm_lock_release(&cache->tables);
	/* The lowest row is on top, so that neighbours in time are neighbours in memory. */
	for (i = end; i > first; i--)
		cm_rows_give_block(device, i - 1);
}

uint32_t cm_rows_take_segment(struct cm_cache *cache)
{
	uint32_t index;

	cm_lock_acquire(&cache->tables);
	index = cache->spare_segment;
	if (index) {
		cache->spare_segment = cache->segment[index].first;
		cache->segment[index].first = 0;
	} else if (!cm_region_commit(cache->region, CM_TABLE_SEGMENT, cache->segments + 1)) {
		index = cache->segments++;
	}
	cm_lock_release(&cache->tables);
	return index;
}

void cm_rows_give_segment(struct cm_cache *cache, uint32_t index)
{
	cm_lock_acquire(&cache->tables);
	__atomic_store_n(&cache->segment[index].flags, 0, __ATOMIC_RELEASE);
	cache->segment[index].first = cache->spare_segment;
	cache->spare_segment = index;
	cm_lock_release(&cache->tables);
}

uint32_t cm_rows_segments(struct cm_cache *cache)
{
	return CM_WITH_LOCK(&cache->tables, cache->segments);
}

uint32_t cm_rows_find_block_locked(struct cm_device *device, uint64_t addr)
{
	struct cm_cache *cache = device->cache;
	uint32_t index = cm_page_map_find(&cache->pages, device->index, addr), s, end;

	if (index)
		return index;
	end = cm_rows_segments(cache);
	for (s = 1; s < end; s++)
		if (cm_segment_is_of(&cache->segment[s], device) &&
		    addr >= cache->segment[s].addr &&
		    addr - cache->segment[s].addr < cache->segment[s].size)
			break;
	if (s == end)
		return 0;
	for (index = cache->segment[s].first;
	     cache->block[index].addr + cache->block[index].size <= addr;)
		index = cache->block[index].next;
	return index;
}

void cm_cache_open_ring(struct cm_cache *cache, enum cm_table table, uint32_t index, uint32_t first,
			struct cm_ring *ret_ring)
{
	const uint32_t rows = cache->region->header->table[table].ring;
	const uint64_t events = atomic_load_explicit(&cache->events, memory_order_relaxed);
	const bool on = table == CM_TABLE_EVENT ? events >> first & 1 : cache->pinned_events;

	*ret_ring = (struct cm_ring){0};
	if (!on || !rows || cm_region_commit(cache->region, table, (index + 1) * rows))
		return;
	ret_ring->mask = rows - 1;
	ret_ring->row = cm_region_row(cache->region, table, index * rows);
}
