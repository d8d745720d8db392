/* SPDX-License-Identifier: MIT */
/*
 * Rows of devices and heaps by what the program names them.
 */

#include "allocator/cache.h"
#include "allocator/state/state.h"

uint32_t cm_cache_device_row(struct cm_cache *cache, int32_t ordinal)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);

	for (i = 0; i < n; i++)
		if (cache->device[i]->row->ordinal == ordinal)
			return i;
	return UINT32_MAX;
}

struct cm_heap *cm_cache_find_heap(struct cm_cache *cache, uint64_t ctx)
{
	uint32_t i, n = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;

	for (i = 0; ctx && i < n; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_acquire);
		if (CM_LIKELY(cm_heap_ctx(heap) == ctx) && CM_LIKELY(cm_heap_is_first(heap)))
			return heap;
	}
	return NULL;
}
