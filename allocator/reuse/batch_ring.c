/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/batch_ring.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "allocator/reuse/fence.h"

void cm_batch_ring_init(struct cm_batch_ring *ring, struct cm_heap *heap,
			bool (*retire_locked)(struct cm_batch_ring *ring, struct cm_batch *batch))
{
	ring->cache = heap->cache;
	ring->heap = heap;
	ring->lock = &heap->device->lock;
	ring->retire_locked = retire_locked;
	cm_batch_ring_empty(ring);
}

void cm_batch_ring_empty(struct cm_batch_ring *ring)
{
	/* A number names one batch for ever: a thread may come back late with an old one. */
	ring->open = (struct cm_batch){.number = ring->open.number + 1};
	ring->oldest = ring->open.number;
}

/* The work number that the ring's batches are compared with. */
static uint64_t work_of(const struct cm_batch_ring *ring)
{
	return ring->heap ? cm_device_work(ring->heap->device) : cm_cache_work(ring->cache);
}

static bool detach_locked(struct cm_batch_ring *ring)
{
	struct cm_batch *open = &ring->open;
	const uint64_t number = open->number;

	assert(cm_lock_is_held(&ring->cache->event_lock));
	if (!open->list.first || number - ring->oldest >= CM_BATCHES_MAX)
		return false;
	/* An open batch has no events; their many slots are not cleared. */
	memcpy(cm_batch_at(ring, number), open, offsetof(struct cm_batch, fence.event));
	memset(open, 0, offsetof(struct cm_batch, fence.event));
	open->number = number + 1;
	if (ring->heap)
		ring->heap->row->epoch_open = open->number;
	return true;
}

bool cm_batch_ring_detach_event_locked(struct cm_batch_ring *ring, bool clean)
{
	return CM_WITH_LOCK(ring->lock,
			    (!clean || ring->open.work == work_of(ring)) && detach_locked(ring));
}

bool cm_batch_ring_detach_same_event_locked(struct cm_batch_ring *ring, uint64_t number,
					    uint64_t blocks)
{
	return CM_WITH_LOCK(ring->lock, ring->open.number == number &&
						ring->open.blocks == blocks && detach_locked(ring));
}

/* If a fence could not be recorded, tries again inside the gate: a later one captures no less.
 * Pinned memory belongs to no device: the first device counts its queries. */
static bool is_complete(struct cm_batch_ring *ring, uint64_t number, bool gated)
{
	struct cm_cache *cache = ring->cache;
	struct cm_device *device = ring->heap ? ring->heap->device : NULL;
	struct cm_device *asks = device ? device : cache->device[0];
	struct cm_batch *batch = cm_batch_at(ring, number);

	if (!batch->recorded && gated)
		batch->recorded = cm_fence_record_event_locked(cache, device, &batch->fence);
	return batch->recorded && !cache->ending &&
	       (gated ? cm_fence_is_complete_event_locked(&batch->fence, asks)
		      : cm_fence_is_complete_ungated_event_locked(&batch->fence, asks)) &&
	       !(ring->heap && cm_heap_is_dead(ring->heap));
}

/* Threads that have shards seldom want the lock of another one, and all of them want the event
 * lock. */
static bool lets_spinners_in(const struct cm_batch_ring *ring)
{
	return !ring->heap || !cm_device_has_shards(ring->heap->device);
}

void cm_batch_ring_retire_event_locked(struct cm_batch_ring *ring, uint64_t end)
{
	while (ring->oldest < end) {
		struct cm_batch *batch = cm_batch_at(ring, ring->oldest);

		/* A barrier has taken the events of its epoch. */
		if (batch->fence.events)
			cm_fence_fini_event_locked(&batch->fence);
		cm_lock_acquire(ring->lock);
		while (!ring->retire_locked(ring, batch))
			cm_lock_let_in(ring->lock, lets_spinners_in(ring));
		ring->oldest++;
		cm_lock_release(ring->lock);
	}
}

/* Events that are given back may have to be destroyed, which is for the gate. */
static void retire(struct cm_batch_ring *ring, uint64_t end, bool gated)
{
	uint64_t number;

	for (number = ring->oldest; number < end && !gated; number++)
		cm_fence_drop_event_locked(&cm_batch_at(ring, number)->fence);
	cm_batch_ring_retire_event_locked(ring, end);
}

/* The newest first, since all are complete if it is; then from the oldest on. So a device that lags
 * costs two queries. */
static bool poll_until(struct cm_batch_ring *ring, uint64_t end, bool gated)
{
	const uint64_t before = ring->oldest;

	assert(cm_lock_is_held(&ring->cache->event_lock));
	if (end > ring->open.number)
		end = ring->open.number; /* another context has the ring by now */
	if (before >= end)
		return false;
	if (is_complete(ring, end - 1, gated))
		retire(ring, end, gated);
	while (ring->oldest + 1 < end && is_complete(ring, ring->oldest, gated))
		retire(ring, ring->oldest + 1, gated);
	return ring->oldest != before;
}

bool cm_batch_ring_poll_until_event_locked(struct cm_batch_ring *ring, uint64_t end)
{
	return poll_until(ring, end, true);
}

bool cm_batch_ring_poll_event_locked(struct cm_batch_ring *ring)
{
	return poll_until(ring, ring->open.number, true);
}

void cm_batch_ring_poll_ungated_event_locked(struct cm_batch_ring *ring, uint64_t end)
{
	(void)poll_until(ring, end, false);
}

void cm_batch_ring_forget_event_locked(struct cm_batch_ring *ring, const struct cm_heap *gone)
{
	uint64_t number;

	for (number = ring->oldest; number < ring->open.number; number++)
		cm_fence_forget_event_locked(&cm_batch_at(ring, number)->fence, gone);
}

void cm_batch_ring_drop_event_locked(struct cm_batch_ring *ring)
{
	uint64_t number;

	for (number = ring->oldest; number < ring->open.number; number++)
		cm_fence_drop_event_locked(&cm_batch_at(ring, number)->fence);
}
