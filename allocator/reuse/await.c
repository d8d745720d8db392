/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/await.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/epoch.h"
#include "allocator/reuse/fence.h"
#include "allocator/reuse/ordered.h"
#include "allocator/reuse/reach.h"
#include "allocator/state/report.h"

/* How long to wait after the work for which a cudaFree would have waited: for work of its device,
 * and for work of others, for which it does not wait. Outside of the gate the two are equal, so
 * that nobody asks whose work it is. */
struct patience {
	uint64_t limit_ns;
	uint64_t others_ns;
	bool ungated;
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
	if (patience->ungated)
		cm_batch_ring_poll_ungated_event_locked(ring, end);
	else
		(void)cm_batch_ring_poll_until_event_locked(ring, end);
	return ring->oldest < end && !is_out_of_patience(ring, end, patience);
}

/* One poll: whether to poll again for the batches before `end`. */
static bool has_to_wait(struct cm_heap *heap, const struct ends *end,
			const struct patience *patience)
{
	bool again;

	cm_lock_acquire(&heap->cache->event_lock);
	again = cm_ordered_holds_event_locked(heap) &&
		has_to_wait_for(&heap->ordered, end->ordered, patience);
	again = has_to_wait_for(&heap->epochs, end->epochs, patience) || again;
	again = again && !cm_heap_is_dead(heap);
	cm_lock_release(&heap->cache->event_lock);
	return again;
}

/* The last batch that is waited for; NULL: it is ready. */
static struct cm_batch *last_before(struct cm_heap *heap, const struct ends *end)
{
	if (heap->epochs.oldest < end->epochs && end->epochs <= heap->epochs.open.number)
		return cm_batch_at(&heap->epochs, end->epochs - 1);
	if (heap->ordered.oldest < end->ordered && end->ordered <= heap->ordered.open.number)
		return cm_batch_at(&heap->ordered, end->ordered - 1);
	return NULL;
}

/*
 * Whether the thread may wait for the event of the heap's own context without a limit: its last
 * free of the batch would have waited for as much. If another thread did that free, a kernel may be
 * waiting for this one. Work that no hook saw is guarded against as before a barrier: by age.
 */
static bool begin_wait_event_locked(struct cm_heap *heap, const struct ends *end)
{
	const struct cm_batch *batch = last_before(heap, end);

	return batch && batch->clean && batch->thread == cm_thread.id &&
	       heap->cache->ops->now_ns() - batch->closed_ns < CM_PATIENCE_NS &&
	       cm_fence_begin_wait_event_locked(&batch->fence, heap);
}

/* The wait that has begun, outside the gate; *ret_done: the work is done. False: a capture is
 * active, and the caller is outside the gate. */
static bool wait_outside(struct cm_heap *heap, bool *ret_done)
{
	const struct cm_driver_ops *ops = heap->cache->ops;

	ops->gate_leave();
	*ret_done = cm_fence_wait_ungated(heap);
	return cm_gate_enter(ops);
}

/* Waits so if it may; *ret_waited: it did. */
static bool wait_for_event(struct cm_heap *heap, const struct ends *end, bool *ret_waited)
{
	bool done; /* the caller looks for itself */

	*ret_waited = CM_WITH_LOCK(&heap->cache->event_lock, begin_wait_event_locked(heap, end));
	return !*ret_waited || wait_outside(heap, &done);
}

/* Begins to wait so for the newest event, behind which no unbounded work was submitted. */
static bool begin_wait_for_device_event_locked(struct cm_heap *heap)
{
	const struct ends end = {heap->epochs.open.number, heap->ordered.open.number};
	const struct cm_batch *batch = last_before(heap, &end);

	return batch && batch->work == cm_device_work(heap->device) &&
	       cm_reach_is_alone_event_locked(heap) && begin_wait_event_locked(heap, &end);
}

int cm_epoch_wait_for_device(struct cm_heap *heap)
{
	struct cm_idle idle;
	bool waits, done;

	cm_lock_acquire(&heap->cache->event_lock);
	idle = cm_epoch_begin_idle_event_locked(heap->device);
	waits = begin_wait_for_device_event_locked(heap);
	cm_lock_release(&heap->cache->event_lock);
	if (!waits)
		return -EAGAIN;
	if (!wait_outside(heap, &done))
		return -EBUSY;
	if (!done)
		return -EAGAIN;
	cm_lock_acquire(&heap->cache->event_lock);
	cm_epoch_end_idle_event_locked(heap->device, idle);
	cm_lock_release(&heap->cache->event_lock);
	return 0;
}

/* The end of the oldest batches that a cudaFree would have waited for. */
static uint64_t first_clean_end(struct cm_batch_ring *ring)
{
	uint64_t number = ring->oldest;

	while (number < ring->open.number && !cm_batch_at(ring, number)->clean)
		number++;
	return number < ring->open.number ? number + 1 : ring->open.number;
}

/* If the ring is full, retires completed batches to make room. */
static void close_open(struct cm_heap *heap)
{
	if (!cm_epoch_close_event_locked(heap) && cm_epoch_poll_event_locked(heap))
		(void)cm_epoch_close_event_locked(heap);
}

static struct ends end_of_all(struct cm_heap *heap)
{
	close_open(heap);
	return (struct ends){heap->epochs.open.number, heap->ordered.open.number};
}

/* The bytes of the oldest closed batches up to the first clean one; 0: none is clean. */
static uint64_t oldest_bytes(struct cm_batch_ring *ring)
{
	const uint64_t end = first_clean_end(ring);
	uint64_t number, bytes = 0;

	for (number = ring->oldest; number < end; number++)
		bytes += cm_batch_at(ring, number)->bytes;
	return ring->oldest < end && cm_batch_at(ring, end - 1)->clean ? bytes : 0;
}

uint64_t cm_epoch_oldest_bytes(struct cm_heap *heap)
{
	uint64_t bytes;

	cm_lock_acquire(&heap->cache->event_lock);
	if (!cm_batch_ring_is_empty(&heap->epochs) || cm_ordered_holds_event_locked(heap))
		bytes = oldest_bytes(cm_ordered_holds_event_locked(heap) ? &heap->ordered
									 : &heap->epochs);
	else
		bytes = cm_epoch_open_is_clean(heap) ? cm_heap_pending_bytes(heap) : 0;
	cm_lock_release(&heap->cache->event_lock);
	return bytes;
}

static struct ends end_of_oldest(struct cm_heap *heap)
{
	if (cm_ordered_holds_event_locked(heap))
		return (struct ends){heap->epochs.oldest, first_clean_end(&heap->ordered)};
	if (cm_batch_ring_is_empty(&heap->epochs))
		close_open(heap);
	return (struct ends){first_clean_end(&heap->epochs), heap->ordered.oldest};
}

static void count_wait(struct cm_heap *heap, uint64_t start_ns)
{
	const uint64_t ns = heap->cache->ops->now_ns() - start_ns;

	cm_device_count(heap->device, CM_SCALAR_waits, 1);
	cm_device_count(heap->device, CM_SCALAR_wait_ns, (int64_t)ns);
}

static bool await(struct cm_heap *heap, const struct patience *patience,
		  struct ends (*end_of)(struct cm_heap *heap), bool blocks)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t start = ops->now_ns(), backoff = CM_GATE_BACKOFF_NS;
	bool inside = true, waited = false;
	struct ends end;

	cm_lock_acquire(&heap->cache->event_lock);
	if (!(heap->can & CM_CAN_CTX_EVENTS)) {
		if (cm_heap_pending_bytes(heap))
			(void)cm_epoch_synchronize_event_locked(heap);
		cm_lock_release(&heap->cache->event_lock);
		return true;
	}
	end = end_of(heap);
	cm_lock_release(&heap->cache->event_lock);
	if (blocks)
		inside = wait_for_event(heap, &end, &waited);
	while (inside && has_to_wait(heap, &end, patience)) {
		inside = cm_gate_backoff(ops, &backoff);
		waited = true;
	}
	if (!waited)
		return true;
	count_wait(heap, start);
	return inside;
}

static const struct patience as_native = {CM_STUCK_NS, CM_PATIENCE_NS, false};

bool cm_epoch_wait_as_native(struct cm_heap *heap)
{
	return await(heap, &as_native, end_of_all, false);
}

bool cm_epoch_wait_for_oldest(struct cm_heap *heap)
{
	return await(heap, &as_native, end_of_oldest, true);
}

bool cm_epoch_wait_device(struct cm_device *device, uint64_t limit_ns)
{
	struct cm_heap *heap;
	uint32_t at = 0;

	cm_device_count(device, CM_SCALAR_num_sync_all_streams, 1);
	while ((heap = cm_device_next_heap(device, &at)))
		if (!await(heap, &(struct patience){limit_ns, limit_ns, false}, end_of_all, false))
			return false;
	return true;
}

void cm_epoch_wait_ungated(struct cm_heap *heap)
{
	static const struct patience patience = {CM_STUCK_NS, CM_STUCK_NS, true};
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t start = ops->now_ns(), backoff = CM_GATE_BACKOFF_NS;
	struct ends end;
	bool waited;

	cm_lock_acquire(&heap->cache->event_lock);
	end = (struct ends){heap->epochs.open.number, heap->ordered.open.number};
	waited = begin_wait_event_locked(heap, &end);
	cm_lock_release(&heap->cache->event_lock);
	if (waited)
		(void)cm_fence_wait_ungated(heap); /* the polls decide */
	while (has_to_wait(heap, &end, &patience)) {
		cm_ops_backoff(ops, &backoff, CM_GATE_BACKOFF_MAX_NS);
		waited = true;
	}
	if (waited)
		count_wait(heap, start);
}
