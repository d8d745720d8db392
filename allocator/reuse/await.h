/* SPDX-License-Identifier: MIT */
/*
 * The host waits for freed memory to become ready.
 *
 * All functions call the driver. Except for cm_epoch_wait_ungated, the caller has entered the
 * capture gate, which is left while it waits; it holds none of the locks of the cache and its
 * devices but the reclaim lock.
 */
#ifndef CM_ALLOCATOR_REUSE_AWAIT_H
#define CM_ALLOCATOR_REUSE_AWAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/*
 * Waits until all memory freed before is ready: at most CM_STUCK_NS for a clean epoch and all
 * before it, CM_PATIENCE_NS for others or if only other devices are at work, and not at all if the
 * driver gives no answer. False: a capture is active, and the caller is outside the gate
 * (cm_gate_enter).
 */
CM_NODISCARD bool cm_epoch_wait_as_native(struct cm_heap *heap);

/* The same for every context of the device, at most `limit_ns` for clean epochs, whichever device
 * is at work. Counted as PyTorch's synchronize_and_free_events. */
CM_NODISCARD bool cm_epoch_wait_device(struct cm_device *device, uint64_t limit_ns);

/* As cm_epoch_wait_as_native, but only for the oldest batches up to the first clean one, so the
 * device goes on with newer work. Without a limit if the calling thread did its last free: that
 * cudaFree would have taken as long. A driver without events of a context: for all. */
CM_NODISCARD bool cm_epoch_wait_for_oldest(struct cm_heap *heap);

/*
 * Waits for all work of the device if the last cudaFree, which was the calling thread's, would have
 * taken as long: the heap's context is the only one there, its last batch is clean, and no
 * unbounded work was submitted since. Without a limit. 0: that work has ended, as if
 * cm_epoch_quiesces had returned 0. -EAGAIN: it has not waited, or the driver refused. -EBUSY: a
 * capture is active, and the caller is outside the gate. Hold no reclaim lock: others would wait
 * for it.
 */
CM_NODISCARD int cm_epoch_wait_for_device(struct cm_heap *heap);

/* As cm_epoch_wait_as_native, outside of the gate, also while a capture is active: for what was
 * closed before, at most CM_STUCK_NS whichever device is at work, and without a limit where
 * cm_epoch_wait_for_oldest has none. */
void cm_epoch_wait_ungated(struct cm_heap *heap);

/* The bytes of the batches that cm_epoch_wait_for_oldest waits for; 0: there is no clean one. Takes
 * the event lock. */
uint64_t cm_epoch_oldest_bytes(struct cm_heap *heap);

#endif
