/* SPDX-License-Identifier: MIT */
/*
 * One event in every context that can reach the memory of a device (reach.h), recorded together:
 * when all of them have completed, so has all work that was submitted anywhere before and may have
 * touched that memory. For memory of the host it has an event in every context of the process.
 *
 * Events stay with their context and serve one fence after the other. Where a driver has no events
 * of a context, cm_fence_synchronize_event_locked is all there is.
 *
 * All functions call the driver: the caller has entered the capture gate (but for *_ungated), holds
 * the cache's event lock and no device's lock. A context that answers with an error of its own is
 * left to the program: its heap drains. Nothing waits for one that is beyond an answer
 * (ops->ctx_is_dead), or what one device has suffered would end the reuse on all others. No driver
 * call is made by those named *_drop, *_forget, *_leave_out and *_move.
 */
#ifndef CM_ALLOCATOR_REUSE_FENCE_H
#define CM_ALLOCATOR_REUSE_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Whether the driver has what a fence needs. */
bool cm_fence_is_possible(const struct cm_cache *cache);

/* Records the fence, which holds no events, for memory of the device `of`; NULL: of the host.
 * False: it could not, for example since a context is suspended; the fence still holds no
 * events. */
bool cm_fence_record_event_locked(struct cm_cache *cache, struct cm_device *of,
				  struct cm_fence *fence);

/* The same for the work that the driver waits for when memory of the device is freed. Leaves out
 * suspended contexts, which end by themselves or go on. No proof that memory is idle. */
bool cm_fence_record_probe_event_locked(struct cm_device *device, struct cm_fence *fence);

/* Asks the driver; events that have completed are given back at once. Never blocks. The questions
 * are counted as the device's for whose memory they are asked, not as those of the contexts: the
 * lock of another device is its threads' own, and not taken on the way of a request. */
bool cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks);

/* The same outside of the gate, also while a capture is active; the fence keeps its events. */
bool cm_fence_is_complete_ungated_event_locked(struct cm_fence *fence, struct cm_device *asks);

/* The same inside of the gate, and for the contexts of one device alone. */
bool cm_fence_is_device_done_event_locked(const struct cm_fence *fence, struct cm_device *device);

/* Puts all future work of the context behind its event, on the device. False: it can't be. */
bool cm_fence_order_event_locked(const struct cm_fence *fence, struct cm_heap *heap);

/* Gives the events back to their contexts, complete or not; the fence holds none then. */
void cm_fence_fini_event_locked(struct cm_fence *fence);

/* The same without any call of the driver: what can't be kept lasts as long as its context. */
void cm_fence_drop_event_locked(struct cm_fence *fence);

/* Hands the events on to a fence that holds none; the first one holds none then. */
void cm_fence_move_event_locked(struct cm_fence *fence, struct cm_fence *to);

/* The context is gone, and its work and its events with it. */
void cm_fence_forget_event_locked(struct cm_fence *fence, const struct cm_heap *gone);

/* Waits for the context no longer, which stands; its event is given back without any call. */
void cm_fence_leave_out_event_locked(struct cm_fence *fence, struct cm_heap *heap);

/* The host waits for all work of the contexts that a fence for `of` would have events of. False on
 * a driver error, or while a context is ending. */
bool cm_fence_synchronize_event_locked(struct cm_cache *cache, struct cm_device *of);

#endif
