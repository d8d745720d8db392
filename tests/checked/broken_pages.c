/* SPDX-License-Identifier: MIT */
/* Pages are taken from where a barrier alone orders what comes next, as if the host had been
 * told. */
#include "allocator/state/state.h"

extern bool __real_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks)
	__attribute__((visibility("hidden")));
bool __wrap_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks);

bool __wrap_cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks)
{
	struct cm_heap *heap = fence->events ? fence->event[0].heap : NULL;

	return (heap && fence == cm_heap_ordered(heap)) ||
	       __real_cm_fence_is_complete_event_locked(fence, asks);
}
