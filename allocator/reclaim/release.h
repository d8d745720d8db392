/* SPDX-License-Identifier: MIT */
/*
 * Giving segments back to the driver. The counters move under the device's lock, the driver is
 * called without it. Callers that decide by what is left hold the device's reclaim lock.
 */
#ifndef CM_ALLOCATOR_RECLAIM_RELEASE_H
#define CM_ALLOCATOR_RECLAIM_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Whether the segment is a free driver allocation of the device, whose lock is held, and its heap
 * is not suspended; pages go another way (paged.h). */
bool cm_release_can(const struct cm_device *device, const struct cm_segment *segment);

/* Takes such a segment out of the tables, until it is given to the driver, without the lock. */
void cm_release_take_locked(struct cm_device *device, uint32_t segment,
			    struct cm_pending_release *ret_piece);
int cm_release_give(struct cm_pending_release *piece); /* the driver's answer */

/* Whether a heap of the device is suspended. Takes its lock. */
bool cm_release_has_suspended(struct cm_device *device);

/* How often a heap was. Who finds another number behind what he has given back may have missed
 * some: no epoch is closed meanwhile, and what that heap has stays. */
static inline uint64_t cm_release_suspensions(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->suspensions, memory_order_relaxed);
}

/* Before memory is looked for that could go back: what a suspended heap has can go in a moment, by
 * us or by the driver. Most contexts stay, so it is waited for, `limit_ns` at most. False: a
 * capture is active, and the caller outside of the gate (cm_gate_enter). */
CM_NODISCARD bool cm_release_await_suspended(struct cm_device *device, uint64_t limit_ns);

/* All wholly free segments of the device; the bytes given back. */
uint64_t cm_release_free(struct cm_device *device);

/*
 * Of the wholly free segments of at most `most` bytes the one that has been idle longest; pages are
 * not among them. The bytes given back, 0: there is none.
 */
uint64_t cm_release_idlest(struct cm_device *device, uint64_t most);

/*
 * Wholly free segments that are not recycled: exported ones, and those of draining heaps; and the
 * pages of contexts that have gone while a capture was active. What the driver would wait for the
 * device for stays until that has nothing to do: the program does not ask for it here, and its work
 * may wait for what it does next. -EBUSY: a capture is active, and the caller outside of the gate
 * (cm_gate_enter).
 */
CM_NODISCARD int cm_release_unreclaimed(struct cm_device *device);

/* The same for one segment, unless somebody else was faster; the driver's answer. */
int cm_release_unreclaimed_segment(struct cm_device *device, uint32_t segment);

/*
 * PyTorch's garbage_collection_threshold: when the device's reserved bytes exceed that share of the
 * cap, frees unsplit blocks of the large pool, the longest unused first, by passes over those not
 * younger than the average, until the excess is gone or nothing is left. -EBUSY: a capture is
 * active, and the caller outside of the gate (cm_gate_enter).
 */
CM_NODISCARD int cm_release_aged(struct cm_heap *heap);

/*
 * PyTorch's first answer to a failure where max_split_size is finite: free blocks of that size or
 * more, the smallest that is enough, else from the largest down. True where they come to at least
 * max(size, max_split_size); what was freed is added to *bytes.
 */
bool cm_release_oversize(struct cm_heap *heap, uint64_t size, uint64_t *bytes);

/* Gives memory of the calling thread's context, which is in no table, to the driver. The driver's
 * answer. */
int cm_release_to_driver(struct cm_device *device, uint64_t ctx, uint64_t addr, uint64_t bytes);

#endif
