/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/await.h"

#include "allocator/base/gate.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/fence.h"
#include "allocator/reuse/ordered.h"
#include "allocator/reuse/reach.h"
#include "allocator/state/report.h"

/* How long to wait after the work for which a cudaFree would have waited: for work of its device,
 * and for work of others, for which it does not wait. */
struct patience {
	uint64_t limit_ns;
	uint64_t others_ns;
};

static uint64_t patience_with(struct cm_heap *heap, const struct cm_batch *epoch,
			      const struct patience *patience)
{
	if (patience->limit_ns == patience->others_ns || cm_reach_is_alone_event_locked(heap))
		return patience->limit_ns;
	return cm_fence_is_device_done_event_locked(&epoch->fence, heap->device)
		       ? patience->others_ns
		       : patience->limit_ns;
}

/* Waits for the batches of both rings before these numbers, and not for what others free and close
 * meanwhile. */
struct ends {
	uint64_t epochs;
	uint64_t ordered;
};

/*
 * Whether the wait for the batches before `end` was long enough. For a clean one, and all before
 * it, a cudaFree would have waited, too.
 */
static bool is_out_of_patience(struct cm_batch_ring *ring, uint64_t end,
			       const struct patience *patience)
{
	uint64_t number, now = ring->cache->ops->now_ns();
	const struct cm_batch *batch;

	for (number = ring->oldest; number < end; number++) {
		batch = cm_batch_at(ring, number);
		if (batch->fence.broken)
			return true;
		if (batch->clean)
			return now - batch->closed_ns >= patience_with(ring->heap, batch, patience);
	}
	return now - cm_batch_at(ring, ring->oldest)->closed_ns >= CM_PATIENCE_NS;
}

static bool has_to_wait_for(struct cm_batch_ring *ring, uint64_t end,
			    const struct patience *patience)
{
	if (end > ring->open.number)
		end = ring->open.number; /* another context has the heap by now */
	return ring->oldest < end && !is_out_of_patience(ring, end, patience);
}

/* One poll: whether to poll again for the batches before `end`. */
static bool has_to_wait(struct cm_heap *heap, const struct ends *end,
			const struct patience *patience)
{
	bool again;

	cm_lock_acquire(&heap->cache->event_lock);
	(void)cm_epoch_poll_event_locked(heap);
	again = !cm_heap_is_dead(heap) &&
		(has_to_wait_for(&heap->epochs, end->epochs, patience) ||
		 (cm_ordered_holds_event_locked(heap) &&
		  has_to_wait_for(&heap->ordered, end->ordered, patience)));
	cm_lock_release(&heap->cache->event_lock);
	return again;
}

static bool await(struct cm_heap *heap, const struct patience *patience)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t start = ops->now_ns(), backoff = CM_GATE_BACKOFF_NS;
	struct ends end;
	bool inside;

	cm_lock_acquire(&heap->cache->event_lock);
	if (!(heap->can & CM_CAN_CTX_EVENTS)) {
		if (cm_heap_pending_bytes(heap))
			(void)cm_epoch_synchronize_event_locked(heap);
		cm_lock_release(&heap->cache->event_lock);
		return true;
	}
	/* If the ring is full, retires completed batches to make room. */
	if (!cm_epoch_close_event_locked(heap) && cm_epoch_poll_event_locked(heap))
		(void)cm_epoch_close_event_locked(heap);
	end = (struct ends){heap->epochs.open.number, heap->ordered.open.number};
	cm_lock_release(&heap->cache->event_lock);
	if (!has_to_wait(heap, &end, patience))
		return true;
	do
		inside = cm_gate_backoff(ops, &backoff);
	while (inside && has_to_wait(heap, &end, patience));
	cm_device_count(heap->device, CM_SCALAR_waits, 1);
	cm_device_count(heap->device, CM_SCALAR_wait_ns, (int64_t)(ops->now_ns() - start));
	return inside;
}

bool cm_epoch_wait_as_native(struct cm_heap *heap)
{
	return await(heap, &(struct patience){CM_STUCK_NS, CM_PATIENCE_NS});
}

bool cm_epoch_wait_device(struct cm_device *device, uint64_t limit_ns)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	cm_device_count(device, CM_SCALAR_num_sync_all_streams, 1);
	while ((heap = cm_device_next_heap(device, &at)))
		if (!await(heap, &(struct patience){limit_ns, limit_ns}))
			return false;
	return true;
}
