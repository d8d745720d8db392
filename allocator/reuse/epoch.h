/* SPDX-License-Identifier: MIT */
/*
 * When freed memory may be reused (docs/decisions/reuse.md says why).
 *
 * A freed block joins its heap's open epoch, without a driver call. Closing the epoch records one
 * event in every context that can reach the memory (fence.h); when all of them are complete, the
 * blocks of that epoch and of all before it are ready. An ordered barrier makes them ready at once:
 * on the device, all future work of the context waits for the event. Drivers without context events
 * wait for the contexts instead, at reuse and never at free.
 *
 * No barrier is laid behind work that may never end, and nothing waits long for such work: an epoch
 * that is not clean (struct cm_batch) may have captured a kernel that waits for work yet to be
 * submitted, and an epoch that has not completed within CM_PATIENCE_NS looks like one.
 *
 * All functions call the driver. The caller has entered the capture gate and holds no device lock;
 * those named *_event_locked want the cache's event lock held, the others take it.
 */
#ifndef CM_ALLOCATOR_REUSE_EPOCH_H
#define CM_ALLOCATOR_REUSE_EPOCH_H

#include <stdbool.h>

#include "allocator/state/state.h"

/* Starts the epochs of a context that gets the heap. The device's lock is held. No driver call. */
void cm_epoch_init(struct cm_heap *heap);

/* Closes the open epoch. False: it is empty, or it could not be recorded and stays open. */
bool cm_epoch_close_event_locked(struct cm_heap *heap);

/* Polls the closed epochs; true if any became ready. */
bool cm_epoch_poll_event_locked(struct cm_heap *heap);

/* Closes the open epoch and polls. True: all is ready, and the device is idle
 * (cm_epoch_is_idle). */
bool cm_epoch_poll_open_event_locked(struct cm_heap *heap);

/* Whether a barrier may be laid at present. */
bool cm_epoch_may_order_event_locked(struct cm_heap *heap);

/* Whether some of the freed memory becomes ready only by events or waits: no barrier may be laid,
 * or blocks wait for the fence of one. */
bool cm_epoch_is_waited_for_event_locked(struct cm_heap *heap);

/* Whether the open epoch is a batch, and gets its event before more work is submitted. */
bool cm_epoch_is_worth_closing_event_locked(struct cm_heap *heap);

/* Makes freed memory ready by an ordered barrier; false if none may be laid. */
bool cm_epoch_barrier_event_locked(struct cm_heap *heap);

/* The host waits for every context that can reach the memory; all of it freed before is ready.
 * False on a driver error. */
bool cm_epoch_synchronize_event_locked(struct cm_heap *heap);

/* See cm_cache_begin_wait; any heap of the context. The end retires what was freed in its shards
 * before the begin, except the open epoch of a shard if anything has joined it since. */
struct cm_program_wait cm_epoch_begin_wait_event_locked(struct cm_heap *heap, uint64_t ctx);
void cm_epoch_end_wait_event_locked(const struct cm_program_wait *wait);

/* Whether the state of work can be queried at all; if not, the host can only wait for it. */
bool cm_epoch_can_ask(struct cm_cache *cache);

/* Whether a wait for memory freed now takes no longer than a cudaFree would have taken. */
bool cm_epoch_open_is_clean(struct cm_heap *heap);

/*
 * 0: all work of the device (cm_fence_record_probe_event_locked) submitted before ends within
 * `limit_ns`; -ETIME: it does not, or that is not known; -EBUSY: a capture is active, and the
 * caller is outside the gate (cm_gate_enter). Cached memory is returned to the driver only after 0,
 * or while cm_epoch_is_idle: cuMemFree waits for the device, and a program whose kernel never ends
 * would hang in a request that natively has nothing to do with it. Waits only once for the same
 * work. The device's reclaim lock is held. Always 0 if no fence is possible.
 */
CM_NODISCARD int cm_epoch_quiesces(struct cm_device *device, uint64_t limit_ns);

/* Around a fence of the device: the first before it is recorded, the second when it has just been
 * seen complete. */
struct cm_idle cm_epoch_begin_idle_event_locked(const struct cm_device *device);
void cm_epoch_end_idle_event_locked(struct cm_device *device, struct cm_idle idle);

/* Whether the second was called within CM_PATIENCE_NS, no thread was submitting unbounded work at
 * the first, and since then none was submitted and no barrier laid: free memory may return to the
 * driver. All that is ready is idle, and a call that waits for the device does not hang; work that
 * no hook saw is guarded against by the age. No driver call. */
bool cm_epoch_is_idle(struct cm_device *device);

/* The context is suspended: no probe waits for it. Memory does, as its fence stays incomplete. No
 * driver call. */
void cm_epoch_suspend_event_locked(struct cm_cache *cache, struct cm_heap *heap);

/* The context is going away, and its work with it: no epoch waits for it any more. */
void cm_epoch_forget_context_event_locked(struct cm_cache *cache, struct cm_heap *gone);

#endif
