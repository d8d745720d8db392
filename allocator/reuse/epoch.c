/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/free.h"
#include "allocator/reuse/fence.h"
#include "allocator/state/report.h"

static struct cm_epoch *closed(struct cm_heap *heap, uint64_t number)
{
	return &heap->closed[number & (CM_EPOCHS_MAX - 1)];
}

enum what {
	WHATEVER_IT_IS,
	WHAT_IS_CLEAN, /* see cm_epoch_open_is_clean */
};

/* Moves the open epoch behind the closed ones. False: it is empty, or they are too many, or it is
 * not what is wanted. */
static bool detach(struct cm_heap *heap, enum what what)
{
	struct cm_device *device = heap->device;
	uint64_t number;
	bool moved;

	cm_lock_acquire(&device->lock);
	number = heap->open.number;
	moved = heap->open.blocks && number - heap->oldest < CM_EPOCHS_MAX &&
		(what == WHATEVER_IT_IS || heap->open.work == cm_ops_work(heap->cache->ops));
	if (moved) {
		/* An open epoch has no events, and their many slots are left as they are. */
		memcpy(closed(heap, number), &heap->open, offsetof(struct cm_epoch, fence.event));
		memset(&heap->open, 0, offsetof(struct cm_epoch, fence.event));
		heap->open.number = number + 1;
		heap->row->epoch_open = number + 1;
	}
	cm_lock_release(&device->lock);
	return moved;
}

/* The newest closed epoch could not be recorded: its blocks go back before the open ones. */
static void reattach(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	struct cm_epoch *back = closed(heap, heap->open.number - 1), *open = &heap->open;

	cm_lock_acquire(&device->lock);
	if (open->first)
		heap->cache->block[back->last].link_next = open->first;
	else
		open->last = back->last;
	open->first = back->first;
	open->blocks += back->blocks;
	open->bytes += back->bytes;
	if (open->blocks == back->blocks)
		open->work = back->work;
	open->number--;
	heap->row->epoch_open = open->number;
	cm_lock_release(&device->lock);
}

/* Closes the open epoch; that is counted when it is ready, unless the caller does. */
static bool close_epoch(struct cm_heap *heap, enum what what)
{
	struct cm_epoch *epoch;

	assert(cm_lock_is_held(&heap->cache->turn));
	if (!(heap->can & CM_CAN_CTX_EVENTS) || !detach(heap, what))
		return false;
	epoch = closed(heap, heap->open.number - 1);
	if (!cm_fence_record_event_locked(heap->cache, &epoch->fence)) {
		reattach(heap);
		return false;
	}
	/* Read after the record: work counted later was submitted later. */
	epoch->clean = cm_ops_work(heap->cache->ops) == epoch->work;
	epoch->closes = 1;
	return true;
}

/* The newest closed epoch was recorded now, and is not ready at once. */
static void note_closed(struct cm_heap *heap)
{
	struct cm_epoch *epoch = closed(heap, heap->open.number - 1);

	cm_device_count(heap->device, CM_SCALAR_epochs_closed, epoch->closes);
	epoch->closes = 0;
	epoch->closed_ns = heap->cache->ops->now_ns();
}

bool cm_epoch_close_event_locked(struct cm_heap *heap)
{
	if (!close_epoch(heap, WHATEVER_IT_IS))
		return false;
	note_closed(heap);
	return true;
}

static bool is_complete(struct cm_heap *heap, uint64_t number)
{
	return !heap->cache->ending &&
	       cm_fence_is_complete_event_locked(&closed(heap, number)->fence, heap->device) &&
	       !heap->over;
}

/* Everything up to the closed epoch `last` is ready. */
static void retire_up_to(struct cm_heap *heap, uint64_t last)
{
	for (; heap->oldest <= last; heap->oldest++) {
		struct cm_epoch *epoch = closed(heap, heap->oldest);

		cm_fence_fini_event_locked(&epoch->fence);
		cm_lock_acquire(&heap->device->lock);
		cm_heap_retire_locked(heap, epoch);
		heap->row->epoch_ready = heap->oldest;
		cm_lock_release(&heap->device->lock);
	}
}

/*
 * The newest first, since its completion is that of all; then the oldest, upwards: a device that
 * lags costs two questions.
 */
bool cm_epoch_poll_event_locked(struct cm_heap *heap)
{
	uint64_t before = heap->oldest, end = heap->open.number;

	assert(cm_lock_is_held(&heap->cache->turn));
	if (before == end)
		return false;
	if (is_complete(heap, end - 1)) {
		retire_up_to(heap, end - 1);
		return true;
	}
	while (heap->oldest < end - 1 && is_complete(heap, heap->oldest))
		retire_up_to(heap, heap->oldest);
	return heap->oldest != before;
}

/* The newest closed epoch that a barrier may be laid behind, or the number before the oldest. */
static uint64_t newest_clean(struct cm_heap *heap)
{
	uint64_t number;

	for (number = heap->open.number; number > heap->oldest; number--)
		if (closed(heap, number - 1)->clean)
			break;
	return number - 1;
}

static bool may_lay_barrier(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;

	return heap->can & CM_CAN_CTX_EVENTS && !(cm_heap_flags(heap) & CM_HEAP_SHARED) &&
	       !cache->ending && cm_cache_has_one_context(cache);
}

/* An epoch that hangs: whatever is put behind it may hang too. */
static bool is_stuck(struct cm_heap *heap)
{
	return heap->oldest != heap->open.number &&
	       heap->cache->ops->now_ns() - closed(heap, heap->oldest)->closed_ns > CM_PATIENCE_NS;
}

/* Lays a barrier behind the newest clean epoch, where there is one: it is ready, and all before
 * it. */
static bool order_behind_clean(struct cm_heap *heap)
{
	uint64_t number = newest_clean(heap);
	struct cm_fence *fence = &closed(heap, number)->fence;

	if (number + 1 == heap->oldest || !cm_fence_order_event_locked(fence, heap))
		return false;
	cm_fence_fini_event_locked(&heap->ordered);
	cm_fence_move_event_locked(fence, &heap->ordered);
	closed(heap, number)->barriers = 1;
	retire_up_to(heap, number);
	return true;
}

bool cm_epoch_barrier_event_locked(struct cm_heap *heap)
{
	bool has_closed, laid;

	assert(cm_lock_is_held(&heap->cache->turn));
	if (!may_lay_barrier(heap) || is_stuck(heap))
		return false;
	has_closed = close_epoch(heap, WHAT_IS_CLEAN);
	laid = order_behind_clean(heap);
	/* One that is ready at once has no need of its time, and to ask for that takes a while. */
	if (has_closed && heap->oldest != heap->open.number)
		note_closed(heap);
	return laid;
}

bool cm_epoch_synchronize_event_locked(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;
	uint64_t start = cache->ops->now_ns(), end;
	bool detached;

	assert(cm_lock_is_held(&heap->cache->turn));
	detached = detach(heap, WHATEVER_IT_IS);
	end = heap->open.number;
	if (detached)
		closed(heap, end - 1)->closed_ns = start;
	if (!cm_fence_synchronize_event_locked(cache) || heap->over) {
		if (detached)
			reattach(heap);
		return false;
	}
	cm_device_count(heap->device, CM_SCALAR_waits, 1);
	cm_device_count(heap->device, CM_SCALAR_wait_ns, (int64_t)(cache->ops->now_ns() - start));
	if (heap->oldest != end)
		retire_up_to(heap, end - 1);
	return true;
}

bool cm_epoch_can_ask(struct cm_cache *cache)
{
	bool can;

	cm_lock_acquire(&cache->turn);
	can = cm_fence_is_possible(cache);
	cm_lock_release(&cache->turn);
	return can;
}

bool cm_epoch_open_is_clean(struct cm_heap *heap)
{
	uint64_t work = cm_ops_work(heap->cache->ops);
	bool clean;

	cm_lock_acquire(&heap->device->lock);
	clean = heap->open.blocks && heap->open.work == work;
	cm_lock_release(&heap->device->lock);
	return clean;
}

/* How long is waited behind what a cudaFree would have waited for: its device's work, and that of
 * others, which it does not wait for. */
struct patience {
	uint64_t limit_ns;
	uint64_t others_ns;
};

static uint64_t patience_with(struct cm_heap *heap, const struct cm_epoch *epoch,
			      const struct patience *patience)
{
	if (patience->limit_ns == patience->others_ns || cm_cache_has_one_context(heap->cache))
		return patience->limit_ns;
	return cm_fence_is_device_done_event_locked(&epoch->fence, heap->device)
		       ? patience->others_ns
		       : patience->limit_ns;
}

/*
 * Whether the epochs before `end` have been waited for long enough. A clean one, whatever lies
 * before it, is what a cudaFree would have waited for.
 */
static bool is_out_of_patience(struct cm_heap *heap, uint64_t end, const struct patience *patience)
{
	uint64_t number, now = heap->cache->ops->now_ns();
	const struct cm_epoch *epoch;

	for (number = heap->oldest; number < end; number++) {
		epoch = closed(heap, number);
		if (epoch->fence.broken)
			return true;
		if (epoch->clean)
			return now - epoch->closed_ns >= patience_with(heap, epoch, patience);
	}
	return now - closed(heap, heap->oldest)->closed_ns >= CM_PATIENCE_NS;
}

/* One look: whether to look again for the epochs before `end`. */
static bool has_to_wait(struct cm_heap *heap, uint64_t end, const struct patience *patience)
{
	bool again;

	cm_lock_acquire(&heap->cache->turn);
	(void)cm_epoch_poll_event_locked(heap);
	if (end > heap->open.number)
		end = heap->open.number; /* another context has the heap by now */
	again = heap->oldest < end && !heap->over && !is_out_of_patience(heap, end, patience);
	cm_lock_release(&heap->cache->turn);
	return again;
}

static bool await(struct cm_heap *heap, const struct patience *patience)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t start = ops->now_ns(), backoff = CM_GATE_BACKOFF_NS, end;
	bool inside;

	cm_lock_acquire(&heap->cache->turn);
	if (!(heap->can & CM_CAN_CTX_EVENTS)) {
		if (cm_heap_pending_bytes(heap))
			(void)cm_epoch_synchronize_event_locked(heap);
		cm_lock_release(&heap->cache->turn);
		return true;
	}
	/* Where as many are closed as can be, those that are done make room. */
	if (!cm_epoch_close_event_locked(heap) && cm_epoch_poll_event_locked(heap))
		(void)cm_epoch_close_event_locked(heap);
	/* What others free and close meanwhile is not waited for. */
	end = heap->open.number;
	cm_lock_release(&heap->cache->turn);
	if (!has_to_wait(heap, end, patience))
		return true;
	do
		inside = cm_gate_backoff(ops, &backoff);
	while (inside && has_to_wait(heap, end, patience));
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

static bool is_on_its_way(struct cm_device *device)
{
	bool runs;

	cm_lock_acquire(&device->cache->turn);
	runs = !cm_fence_is_complete_event_locked(&device->probe, device) && !device->probe.broken;
	cm_lock_release(&device->cache->turn);
	return runs;
}

/* False: it could not be recorded, and says nothing. */
static bool send_probe(struct cm_device *device)
{
	struct cm_cache *cache = device->cache;
	bool sent;

	cm_lock_acquire(&cache->turn);
	cm_fence_fini_event_locked(&device->probe);
	sent = !cm_fence_is_possible(cache) ||
	       cm_fence_record_probe_event_locked(device, &device->probe);
	device->probe_ns = cache->ops->now_ns();
	cm_lock_release(&cache->turn);
	return sent;
}

/* Waits for the probe until it is older than the limit: -ETIME. Not for a broken one. -EBUSY:
 * outside of the gate. */
static int await_probe(struct cm_device *device, uint64_t limit_ns)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (is_on_its_way(device)) {
		if (ops->now_ns() - device->probe_ns >= limit_ns)
			return -ETIME;
		if (!cm_gate_backoff(ops, &backoff))
			return -EBUSY;
	}
	return 0;
}

int cm_epoch_quiesces(struct cm_device *device, uint64_t limit_ns)
{
	bool sent;
	int err;

	assert(cm_lock_is_held(&device->reclaim_lock));
	/* One that is still on its way from before. */
	err = await_probe(device, limit_ns);
	if (err)
		return err;
	sent = send_probe(device);
	err = await_probe(device, limit_ns);
	return err || (sent && !device->probe.broken) ? err : -ETIME;
}

static bool is_consistent(struct cm_heap *heap, bool gated)
{
	bool settled;

	cm_lock_acquire(&heap->cache->turn);
	settled = gated ? cm_fence_is_complete_event_locked(&heap->ordered, heap->device)
			: cm_fence_is_complete_ungated_event_locked(&heap->ordered, heap->device);
	if (heap->ordered.broken) {
		/* Asked another way, where it may be; work of a context that is beyond an answer is
		 * over. */
		if (gated) {
			(void)cm_fence_synchronize_event_locked(heap->cache);
			cm_fence_fini_event_locked(&heap->ordered);
		}
		settled = true;
	}
	cm_lock_release(&heap->cache->turn);
	return settled;
}

void cm_epoch_settle(struct cm_heap *heap)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	uint64_t backoff = CM_GATE_BACKOFF_NS;
	bool gated, settled;

	do {
		gated = ops->gate_enter();
		settled = is_consistent(heap, gated);
		if (gated)
			ops->gate_leave();
		if (!settled)
			cm_ops_backoff(ops, &backoff, CM_GATE_BACKOFF_MAX_NS);
	} while (!settled);
}

void cm_epoch_suspend_event_locked(struct cm_cache *cache, struct cm_heap *heap)
{
	uint32_t i, devices = atomic_load_explicit(&cache->devices, memory_order_acquire);

	for (i = 0; i < devices; i++)
		cm_fence_leave_out_event_locked(&cache->device[i]->probe, heap);
}

void cm_epoch_forget_context_event_locked(struct cm_cache *cache, struct cm_heap *gone)
{
	uint32_t i, heaps = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	uint32_t devices = atomic_load_explicit(&cache->devices, memory_order_acquire);
	uint64_t number;

	for (i = 0; i < heaps; i++) {
		struct cm_heap *heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);

		for (number = heap->oldest; number < heap->open.number; number++)
			cm_fence_forget_event_locked(&closed(heap, number)->fence, gone);
		cm_fence_forget_event_locked(&heap->ordered, gone);
	}
	for (i = 0; i < devices; i++)
		cm_fence_forget_event_locked(&cache->device[i]->probe, gone);
	/* What is left in its own are events of others. */
	for (number = gone->oldest; number < gone->open.number; number++)
		cm_fence_drop_event_locked(&closed(gone, number)->fence);
	cm_fence_drop_event_locked(&gone->ordered);
	gone->spare_events = 0;
}
