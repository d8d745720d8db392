/* SPDX-License-Identifier: MIT */
/*
 * One event in every context that can reach the memory of a device (reach.h), recorded together:
 * when all of them have completed, so has all work that was submitted anywhere before and may have
 * touched that memory. A fence for memory of the host has an event in every context of the process.
 *
 * Events stay with their context and serve one fence after the other. If the driver has no events
 * for a context, only cm_fence_synchronize_event_locked works.
 *
 * All functions call the driver: the caller has entered the capture gate (but for *_ungated), holds
 * the cache's event lock and no device's lock. If a query returns an error of the context itself,
 * its heap drains, and the program finds the error. Nothing waits for a context whose last query
 * returned a sticky error (ops->ctx_is_dead): the failure of one device must not end the reuse on
 * all others. No driver call is made by those named *_drop, *_forget, *_leave_out and *_move.
 */
#ifndef CM_ALLOCATOR_REUSE_FENCE_H
#define CM_ALLOCATOR_REUSE_FENCE_H

#include <stdbool.h>

#include "allocator/state/state.h"

/* Whether the driver has what a fence needs. */
bool cm_fence_is_possible(const struct cm_cache *cache);

/* Records the fence, which holds no events, for memory of the device `of`; NULL: of the host.
 * False: it could not, for example since a context is suspended; the fence still holds no
 * events. */
bool cm_fence_record_event_locked(struct cm_cache *cache, struct cm_device *of,
				  struct cm_fence *fence);

/* The same for the work that the driver waits for when memory of the device is freed. Leaves out
 * suspended contexts, which are destroyed or resumed. No proof that memory is idle. */
bool cm_fence_record_probe_event_locked(struct cm_device *device, struct cm_fence *fence);

/* Queries the driver; events that have completed are given back at once. Never blocks. The queries
 * count for the device whose memory they are about, not for those of the contexts: a request never
 * takes the lock of another device. */
bool cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks);

/* The same outside the gate, also while a capture is active; the fence keeps its events. */
bool cm_fence_is_complete_ungated_event_locked(struct cm_fence *fence, struct cm_device *asks);

/* The same inside the gate, for the contexts of one device. */
bool cm_fence_is_device_done_event_locked(const struct cm_fence *fence, struct cm_device *device);

/*
 * The thread is about to wait for the event of the heap's context, by cm_fence_wait_ungated: until
 * that has returned, the event is not recorded again and the context does not end. False: there is
 * no such event, other threads wait for another one, or the context may be ending. No driver call.
 */
bool cm_fence_begin_wait_event_locked(const struct cm_fence *fence, struct cm_heap *heap);

/* Waits without a limit, outside of the gate and with no lock held. True: the work is done, and the
 * event is not queried afterwards. False: the driver refused, which proves nothing. */
bool cm_fence_wait_ungated(struct cm_heap *heap);

/* Makes all future work of the context wait for its event, on the device. False: not possible. */
bool cm_fence_order_event_locked(const struct cm_fence *fence, struct cm_heap *heap);

/* Gives the events back to their contexts, complete or not; the fence holds none then. */
void cm_fence_fini_event_locked(struct cm_fence *fence);

/* The same without a driver call: events that cannot be kept last as long as their context. */
void cm_fence_drop_event_locked(struct cm_fence *fence);

/* Moves the events to a fence that holds none; the first one holds none then. */
void cm_fence_move_event_locked(struct cm_fence *fence, struct cm_fence *to);

/* The context is gone, and its work and its events with it. */
void cm_fence_forget_event_locked(struct cm_fence *fence, const struct cm_heap *gone);

/* Removes a context that is not destroyed from the fence; its event is given back without a driver
 * call. */
void cm_fence_leave_out_event_locked(struct cm_fence *fence, struct cm_heap *heap);

/* The host waits for all work of the contexts that a fence for `of` would have events of. False on
 * a driver error, or while one of them, or any context without heap, is ending. */
bool cm_fence_synchronize_event_locked(struct cm_cache *cache, struct cm_device *of);

#endif
