/* SPDX-License-Identifier: MIT */
/* Pinned memory is allocated behind a barrier on the device, which does not hold the CPU. */
#include "allocator/reuse/fence.h"

extern bool __real_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks)
	__attribute__((visibility("hidden")));
bool __wrap_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks);

static bool is_of_pinned(const struct cm_fence *fence, const struct cm_pinned *pinned)
{
	return (const char *)fence >= (const char *)pinned->batches.closed &&
	       (const char *)fence < (const char *)(pinned->batches.closed + CM_BATCHES_MAX);
}

bool __wrap_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks)
{
	struct cm_heap *heap = fence->events ? fence->event[0].heap : NULL;

	if (!heap || !is_of_pinned(fence, &heap->cache->pinned))
		return __real_cm_fence_is_complete_event_locked(fence, asks);
	return cm_fence_order_event_locked(fence, heap);
}
