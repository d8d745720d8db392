/* SPDX-License-Identifier: MIT */
/*
 * Freed blocks until they are ready: the batch that frees join, and those that were closed, the
 * oldest first. Each closed one has a fence. When that has completed, the batch is ready, and so
 * are all before it.
 *
 * Its owner decides what becomes of a ready batch: an epoch of a heap (epoch.c), or a batch of
 * pinned memory. Functions named *_event_locked want the event lock and, except forget, the capture
 * gate; they take the ring's own lock.
 */
#ifndef CM_ALLOCATOR_REUSE_BATCH_RING_H
#define CM_ALLOCATOR_REUSE_BATCH_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Resets the ring of a heap whose slot another context had before. */
void cm_batch_ring_init(struct cm_batch_ring *ring, struct cm_heap *heap,
			bool (*retire_locked)(struct cm_batch_ring *ring, struct cm_batch *batch));

/* Empties the ring; its other fields are set. The numbers of its batches continue. */
void cm_batch_ring_empty(struct cm_batch_ring *ring);

/* The closed batch of that number. */
static inline struct cm_batch *cm_batch_at(struct cm_batch_ring *ring, uint64_t number)
{
	return &ring->closed[number & (CM_BATCHES_MAX - 1)];
}

static inline struct cm_batch *cm_batch_newest(struct cm_batch_ring *ring)
{
	return cm_batch_at(ring, ring->open.number - 1);
}

static inline bool cm_batch_ring_is_empty(const struct cm_batch_ring *ring)
{
	return ring->oldest == ring->open.number;
}

/* Appends the open batch to the closed ones, without a fence as yet. False: it is empty, or there
 * are too many, or `clean` is set and work was submitted since its last free. */
bool cm_batch_ring_detach_event_locked(struct cm_batch_ring *ring, bool clean);

/* The same if it is still the epoch of that number, and no more than so many blocks have joined
 * it. */
bool cm_batch_ring_detach_same_event_locked(struct cm_batch_ring *ring, uint64_t number,
					    uint64_t blocks);

/* Queries the closed batches before the number `end`, and retires those that are ready; true if any
 * was. */
bool cm_batch_ring_poll_until_event_locked(struct cm_batch_ring *ring, uint64_t end);
/* The same for all closed batches. */
bool cm_batch_ring_poll_event_locked(struct cm_batch_ring *ring);

/* As the first, outside of the gate, also while a capture is active. */
void cm_batch_ring_poll_ungated_event_locked(struct cm_batch_ring *ring, uint64_t end);

/* All closed batches before the number `end` are ready: retires them. */
void cm_batch_ring_retire_event_locked(struct cm_batch_ring *ring, uint64_t end);

/* The context is going away, and its work with it: no batch waits for it. No driver call. */
void cm_batch_ring_forget_event_locked(struct cm_batch_ring *ring, const struct cm_heap *gone);

/* The fences hold no events any more, complete or not. No driver call. */
void cm_batch_ring_drop_event_locked(struct cm_batch_ring *ring);

#endif
