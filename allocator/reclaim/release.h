/* SPDX-License-Identifier: MIT */
/*
 * Returns segments to the driver. The counters change under the device's lock; the driver is called
 * without it. Callers that depend on what is left hold the device's reclaim lock.
 */
#ifndef CM_ALLOCATOR_RECLAIM_RELEASE_H
#define CM_ALLOCATOR_RECLAIM_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Whether the segment is a wholly free driver allocation of the device, and its heap is not
 * suspended. False for runs of pages, which paged.h returns. The device's lock is held. */
bool cm_release_can(const struct cm_device *device, const struct cm_segment *segment);

/* Takes such a segment out of the tables. cm_release_give, without the lock, then returns it to
 * the driver. */
void cm_release_take_locked(struct cm_device *device, uint32_t segment,
			    struct cm_pending_release *ret_release);
void cm_release_give(struct cm_pending_release *release);

/* Whether a heap of the device is suspended. Takes its lock. */
bool cm_release_has_suspended(struct cm_device *device);

/* How often a heap was suspended. If this changed while memory was returned, some may have been
 * missed: while a heap is suspended no epoch is closed, and its memory stays. */
static inline uint64_t cm_release_suspensions(const struct cm_cache *cache)
{
	return atomic_load_explicit(&cache->suspensions, memory_order_relaxed);
}

/* Waits until no heap of the device is suspended, at most `limit_ns`: then either the driver has
 * freed its memory, or we may return it. Call it before a search for memory to return. False: a
 * capture is active, and the caller is outside the gate (cm_gate_enter). */
CM_NODISCARD bool cm_release_await_suspended(struct cm_device *device, uint64_t limit_ns);

/* Waits until nothing of the device is on its way to the driver, of all its shards: see
 * cm_pending_releases_await. */
CM_NODISCARD bool cm_release_await_pending(struct cm_device *device, uint64_t limit_ns);

/* Whether anything is. */
bool cm_release_has_pending(struct cm_device *device);

/* Returns all wholly free segments of the device, of all its shards. Returns their bytes. */
uint64_t cm_release_free(struct cm_device *device);

/*
 * Returns the segment of the shard that has been idle longest, of the wholly free ones of at most
 * `most` bytes; no pages. Returns its bytes, 0: there is none.
 */
uint64_t cm_release_idlest(struct cm_device *device, uint64_t most);

/*
 * Wholly free segments that are not recycled: exported ones, and those of draining heaps; and the
 * pages of contexts that have gone while a capture was active. If the driver would wait for the
 * device, the memory stays until the device is idle: the program made no call that waits, and its
 * work may depend on what it does next. -EBUSY: a capture is active, and the caller outside of the
 * gate (cm_gate_enter).
 */
CM_NODISCARD int cm_release_unreclaimed_slowly(struct cm_device *device);
static inline int cm_release_unreclaimed(struct cm_device *device)
{
	return CM_UNLIKELY(atomic_load_explicit(&device->unreclaimed, memory_order_relaxed))
		       ? cm_release_unreclaimed_slowly(device)
		       : 0;
}

/* The same for one segment that the program has just freed, unless another thread was faster.
 * Returns the driver's answer, as the program's own call would get it. */
int cm_release_unreclaimed_segment(struct cm_device *device, uint32_t segment);

/*
 * PyTorch's garbage_collection_threshold: when the device's reserved bytes exceed that share of the
 * cap, frees unsplit blocks of the large pool, the longest unused first, by passes over those not
 * younger than the average, until the excess is gone or nothing is left. -EBUSY: a capture is
 * active, and the caller outside of the gate (cm_gate_enter).
 */
CM_NODISCARD int cm_release_aged(struct cm_heap *heap);

/*
 * PyTorch's first step after a failure if max_split_size is finite: returns free blocks of that
 * size or more, the smallest one that is enough, else from the largest down. True if they add up to
 * at least max(size, max_split_size); adds what was freed to *bytes.
 */
bool cm_release_oversize(struct cm_heap *heap, uint64_t size, uint64_t *bytes);

#endif
