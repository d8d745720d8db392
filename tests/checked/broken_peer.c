/* SPDX-License-Identifier: MIT */
/* A barrier is laid although another context can reach the memory. */
#include "allocator/reuse/epoch.h"

extern bool __real_cm_epoch_barrier_event_locked(struct cm_heap *heap)
	__attribute__((visibility("hidden")));
bool __wrap_cm_epoch_barrier_event_locked(struct cm_heap *heap);

bool __wrap_cm_epoch_barrier_event_locked(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;
	uint32_t contexts = atomic_exchange(&cache->contexts, 1);
	uint32_t shared = __atomic_fetch_and(&heap->row->flags, ~CM_HEAP_SHARED, __ATOMIC_RELAXED);
	bool laid = __real_cm_epoch_barrier_event_locked(heap);

	__atomic_fetch_or(&heap->row->flags, shared & CM_HEAP_SHARED, __ATOMIC_RELAXED);
	atomic_store(&cache->contexts, contexts);
	return laid;
}
