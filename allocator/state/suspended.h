/* SPDX-License-Identifier: MIT */
/*
 * Driver calls that name a context which another thread may destroy; and heaps that stop caching. A
 * heap is suspended while only the driver knows whether its context will be destroyed (see
 * cm_cache_suspend_heap): meanwhile no call names the context.
 */
#ifndef CM_ALLOCATOR_STATE_SUSPENDED_H
#define CM_ALLOCATOR_STATE_SUSPENDED_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/*
 * A call of the driver that names the heap's context is about to be made without the event lock:
 * the context's end waits for cm_heap_end_call, since cuda.h wants no call in a context that is
 * being destroyed. For calls that the program does not know of; for its own calls the program is
 * responsible. The heap is in use and not suspended, and a lock is held that forgetting the heap
 * takes: the event lock, the device's lock or that of pinned memory.
 */
static inline void cm_heap_begin_call_locked(struct cm_heap *heap)
{
	atomic_fetch_add_explicit(&heap->first->calls, 1, memory_order_relaxed);
}

/* The same if the context still has the heap, else false; waits while it is suspended. Takes the
 * device's lock. */
bool cm_heap_begin_call(struct cm_heap *heap, uint64_t ctx);

/* The host waits for all work of the heap's context, with no lock held. Returns the driver's
 * answer; 0 also if the context is gone, or while a capture is active, as the host cannot wait for
 * captured work. */
int cm_heap_synchronize(struct cm_heap *heap);

/* Release: a thread that sees that no call is left, in cm_heap_await_calls or before the slot is
 * reused, comes after the calls. */
static inline void cm_heap_end_call(struct cm_heap *heap)
{
	atomic_fetch_sub_explicit(&heap->first->calls, 1, memory_order_release);
}

static inline bool cm_heap_has_calls(const struct cm_heap *heap)
{
	return atomic_load_explicit(&heap->first->calls, memory_order_acquire) != 0;
}

/* How many contexts have had the heap and are gone. */
static inline uint32_t cm_heap_count_gone(const struct cm_heap *heap)
{
	return atomic_load_explicit(&heap->gone, memory_order_relaxed);
}

/* Whether the context still has the heap that had it when so many were gone: a later one may have
 * its handle. */
static inline bool cm_heap_stands(const struct cm_heap *heap, uint64_t ctx, uint32_t gone)
{
	return ctx && cm_heap_ctx(heap) == ctx && cm_heap_count_gone(heap) == gone;
}

/* Stops caching in the heap: see cm_cache_drain_heap. Takes the device's lock. */
void cm_heap_drain(struct cm_heap *heap);

#endif
