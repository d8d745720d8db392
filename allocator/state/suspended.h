/* SPDX-License-Identifier: MIT */
/*
 * Calls of the driver that name a context, beside the end of that context; and heaps that stop
 * caching. A heap is suspended while only the driver knows whether its context ends (see
 * cm_cache_suspend_heap): until then nobody names it in a call.
 */
#ifndef CM_ALLOCATOR_STATE_SUSPENDED_H
#define CM_ALLOCATOR_STATE_SUSPENDED_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/*
 * A call of the driver that names the heap's context is about to be made without the event lock:
 * the context's end waits for cm_heap_end_call, since cuda.h wants no call in a context that is
 * being destroyed. For calls that the program knows nothing of; in what it asks for itself it sees
 * to that. The heap is in use and not suspended, and a lock is held that forgetting it takes: the
 * turn, the device's or the pinned memory's.
 */
static inline void cm_heap_begin_call_locked(struct cm_heap *heap)
{
	atomic_fetch_add_explicit(&heap->calls, 1, memory_order_relaxed);
}

/* The same where the context still has the heap, else false; waits while it is suspended. Takes the
 * device's lock. */
bool cm_heap_begin_call(struct cm_heap *heap, uint64_t ctx);

/* The host waits for all work of the heap's context, with no lock held. The driver's answer; 0 also
 * where the context has gone, or while a capture is active, as captured work cannot be waited
 * for. */
int cm_heap_synchronize(struct cm_heap *heap);

/* Release: who sees that no call is left, in cm_heap_await_calls or before the slot is used again,
 * comes after the calls. */
static inline void cm_heap_end_call(struct cm_heap *heap)
{
	atomic_fetch_sub_explicit(&heap->calls, 1, memory_order_release);
}

static inline bool cm_heap_has_calls(const struct cm_heap *heap)
{
	return atomic_load_explicit(&heap->calls, memory_order_acquire) != 0;
}

/* Stops caching in the heap: see cm_cache_drain_heap. Takes the device's lock. */
void cm_heap_drain(struct cm_heap *heap);

#endif
