/* SPDX-License-Identifier: MIT */
/*
 * When to poll for freed memory although a ready block would serve.
 *
 * An event and its query, or the barrier, are two driver calls, however much memory they make
 * ready. So freed memory is gathered into batches, each a share of what is reserved. Once a batch
 * is complete, a request of any size polls for it, but not within CM_POLL_PAUSE requests after the
 * last poll unless CM_POLL_BATCHES are. Less than a batch is polled for only if a split would pin
 * too much (fragmentation.h).
 *
 * The device's lock is held for all of it. Nothing here calls the driver.
 */
#ifndef CM_ALLOCATOR_BLOCKS_POLL_POLICY_H
#define CM_ALLOCATOR_BLOCKS_POLL_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/pages.h"
#include "allocator/state/state.h"

/* docs/decisions/reuse.md ("Poll by the batch") has the measurements of other values. */
#define CM_POLL_PAUSE   8u
#define CM_POLL_BATCHES 3

/* A context gets the heap. */
void cm_poll_policy_init_locked(struct cm_heap *heap);

/* Memory of the device was reserved or returned. */
void cm_poll_policy_note_reserved_locked(struct cm_device *device);

/*
 * Whether to poll now for pending memory, so that a request finds it ready; if so, the poll is
 * noted. False: the last polls were only a few requests apart, several times, and the program is
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
/* A poll begins that the function above did not note. */
void cm_poll_policy_note_poll_locked(struct cm_heap *heap);
/* It found nothing ready: the device lags. */
static inline void cm_poll_policy_note_lag_locked(struct cm_heap *heap)
{
	heap->polled_bytes = heap->row->pending_bytes;
}

static inline uint32_t cm_poll_policy_requests(const struct cm_heap *heap)
{
	return heap->searches[CM_POOL_SMALL] + heap->searches[CM_POOL_LARGE];
}

static inline bool cm_poll_policy_has_paused(const struct cm_heap *heap)
{
	return cm_poll_policy_requests(heap) - heap->last_poll >= CM_POLL_PAUSE;
}

/* Whether a request polls for batches that are complete, when at least one is. With pages it always
 * does, since pages of pending memory cannot be moved. */
static inline bool cm_poll_policy_wants_batch_locked(const struct cm_heap *heap)
{
	const uint64_t batches = CM_POLL_BATCHES * heap->device->poll_bytes;

	return cm_poll_policy_has_paused(heap) || cm_paged_serves(heap) ||
	       heap->row->pending_bytes >= heap->polled_bytes + batches;
}

/* Whether to poll before `size` bytes are split off a free block of `most` bytes of the large pool,
 * which pins too much: a pending block may fit better. If the device lags, polls pause. */
bool cm_poll_policy_before_split_locked(const struct cm_heap *heap, uint64_t size, uint64_t most);

#endif
