/* SPDX-License-Identifier: MIT */
/*
 * When to poll for freed memory although a ready block would serve.
 *
 * An event and its query, or the barrier, are two driver calls, however much memory they make
 * ready. So freed memory is gathered into batches, each a share of what is reserved. Once a batch
 * is complete, the next request of any size polls for it.
 *
 * Less than a batch is polled for only if a large block would be split while a pending one would
 * fit: pending blocks cannot merge with adjacent blocks, and a large block that was split is
 * missing later. That helps while the program's memory takes its shape. Once memory was freed and
 * allocated many times without more being reserved, the next batch is early enough, unless the
 * split is a large one.
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_POLL_POLICY_H
#define CM_ALLOCATOR_BLOCKS_POLL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* If the device lags, this many requests of the large pool come between two polls for the sake
 * of a large block. */
#define CM_POLL_PAUSE 32

/* Memory of the device was reserved or returned. */
void cm_poll_policy_note_reserved_locked(struct cm_device *device);

/*
 * Whether to poll now for pending memory, so that a request finds it ready; if so, the poll is
 * counted. False: the last polls were only a few requests apart, several times, and the program is
 * small for the card. Then more of its memory may stay pending, and a new segment serves the
 * request: cm_poll_policy_gather_locked, after the driver reported how much of the card is free.
 */
bool cm_poll_policy_polls_locked(struct cm_heap *heap);
/* False: there is no room for such a segment, so poll. `free_bytes` is 0 if no more memory may stay
 * pending. */
bool cm_poll_policy_gather_locked(struct cm_heap *heap, uint64_t segment_bytes,
				  uint64_t free_bytes);
/* Pending memory makes the host wait, for example since another context has access to it. */
void cm_poll_policy_stop_gathering_locked(struct cm_device *device);
/* How many times the reserved memory was freed since it last grew by a sixteenth. */
uint64_t cm_poll_policy_turnovers_locked(const struct cm_device *device);

/* A poll found nothing ready: the device lags, so polls pause for a while. */
static inline void cm_poll_policy_pause_locked(struct cm_heap *heap)
{
	heap->paused_at = heap->searches[CM_POOL_LARGE];
	heap->polled_bytes = heap->row->pending_bytes;
}

/* Whether to poll before `size` bytes are split off a free block of `most` bytes of the large pool,
 * since a pending block may fit better. */
CM_COLD bool cm_poll_policy_before_cut_locked(const struct cm_heap *heap, uint64_t size,
					      uint64_t most);

/* Whether a block of `least` to `most` bytes is pending and was not polled for, or too many are
 * pending to check each. */
bool cm_poll_policy_has_pending_between_locked(const struct cm_heap *heap, uint64_t least,
					       uint64_t most);

#endif
