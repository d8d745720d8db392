/* SPDX-License-Identifier: MIT */
/*
 * When the driver is asked for freed memory although a ready block would serve.
 *
 * An event and the question, or the barrier, make two calls however much they bring, so what is
 * freed is gathered to batches, a share of what is reserved each, and the request behind which a
 * batch waits asks for it, whatever its own size.
 *
 * Less is asked for only where a large block would be cut while one waits that would do: what
 * waits can't join its neighbours, and what has been cut is missing later. That is of use while
 * the program's memory takes its shape. Once it has been freed and taken over and over without
 * more being reserved, the next batch comes in time, unless the cut is a large one.
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_POLL_POLICY_H
#define CM_ALLOCATOR_BLOCKS_POLL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Where the device lags, so many requests of the large pool pass before it is asked once more
 * whether a large block has to be cut. */
#define CM_POLL_PAUSE 32

/* Memory of the device has been reserved or given back. */
void cm_poll_policy_note_reserved_locked(struct cm_device *device);

/*
 * Whether the driver is asked now for what waits, so that a request finds it ready; then that is
 * noted. False: it was asked only a few requests ago, again and again, by a program that is small
 * for the card. More of its memory is let wait instead, and a new segment serves:
 * cm_poll_policy_gather_locked, once the driver has told what is free on the card.
 */
bool cm_poll_policy_asks_locked(struct cm_heap *heap);
/* False: there is no room for such a segment, and the driver is asked. `free_bytes` is 0 where
 * nothing may be let wait. */
bool cm_poll_policy_gather_locked(struct cm_heap *heap, uint64_t segment_bytes,
				  uint64_t free_bytes);
/* What waits makes the host wait, as after another context was given access to the memory. */
void cm_poll_policy_stop_gathering_locked(struct cm_device *device);
/* How often what is reserved has been freed over since it last grew by a sixteenth. */
uint64_t cm_poll_policy_turnovers_locked(const struct cm_device *device);

/* Nothing that was asked for was ready: the device lags, and is left alone for a while. */
static inline void cm_poll_policy_pause_locked(struct cm_heap *heap)
{
	heap->paused_at = heap->searches[CM_FIT_LARGE];
	heap->polled_bytes = heap->row->pending_bytes;
}

/* Whether the driver is asked before `size` bytes are cut off a free block of `most` of the large
 * pool, where one may wait that fits better. */
CM_COLD bool cm_poll_policy_before_cut_locked(const struct cm_heap *heap, uint64_t size,
					      uint64_t most);

/* Whether a block waits, unasked for, of a size from `least` to `most`, or there are too many to
 * look at. */
bool cm_poll_policy_has_pending_between_locked(const struct cm_heap *heap, uint64_t least,
					       uint64_t most);

#endif
