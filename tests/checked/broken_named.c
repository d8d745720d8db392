/* SPDX-License-Identifier: MIT */
/* A barrier makes blocks ready that were named to other devices. */
#include "allocator/reuse/ordered.h"

extern void __real_cm_ordered_add_event_locked(struct cm_heap *heap, uint64_t number)
	__attribute__((visibility("hidden")));
void __wrap_cm_ordered_add_event_locked(struct cm_heap *heap, uint64_t number);

void __wrap_cm_ordered_add_event_locked(struct cm_heap *heap, uint64_t number)
{
	atomic_store(&heap->cache->has_named, false);
	__real_cm_ordered_add_event_locked(heap, number);
}
