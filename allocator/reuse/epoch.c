/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/epoch.h"

#include <assert.h>
#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/free.h"
#include "allocator/reuse/batch_ring.h"
#include "allocator/reuse/fence.h"
#include "allocator/reuse/ordered.h"
#include "allocator/reuse/reach.h"
#include "allocator/state/report.h"

/* An epoch is ready. */
static bool retire_locked(struct cm_batch_ring *ring, struct cm_batch *epoch)
{
	if (!cm_heap_retire_locked(ring->heap, epoch))
		return false;
	ring->heap->row->epoch_ready = epoch->number;
	return true;
}

void cm_epoch_init(struct cm_heap *heap)
{
	cm_batch_ring_init(&heap->epochs, heap, retire_locked);
	cm_ordered_init(heap);
}

/* The newest closed epoch could not be recorded: its blocks return to the end of the open one. */
static void reattach(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	struct cm_batch *back = cm_batch_newest(&heap->epochs), *open = &heap->epochs.open;
	uint32_t *link = &open->list.first;

	cm_lock_acquire(&device->lock);
	while (*link)
		link = &heap->cache->block[*link].link_next;
	*link = back->list.first;
	open->blocks += back->blocks;
	open->bytes += back->bytes;
	if (open->blocks == back->blocks) {
		open->work = back->work;
		open->thread = back->thread;
	}
	open->number--;
	heap->row->epoch_open = open->number;
	cm_lock_release(&device->lock);
}

/* Closes the open epoch, unless `clean` is set and it is not clean. That is counted when it is
 * ready, unless the caller counts it. */
static bool close_epoch(struct cm_heap *heap, bool clean)
{
	struct cm_batch *epoch;

	if (!(heap->can & CM_CAN_CTX_EVENTS) ||
	    !cm_batch_ring_detach_event_locked(&heap->epochs, clean))
		return false;
	epoch = cm_batch_newest(&heap->epochs);
	epoch->recorded = cm_fence_record_event_locked(heap->cache, heap->device, &epoch->fence);
	if (!epoch->recorded) {
		reattach(heap);
		return false;
	}
	/* Read after the record: work counted later was submitted later. */
	epoch->clean = cm_device_work(heap->device) == epoch->work;
	epoch->closes = 1;
	return true;
}

/* The newest closed epoch was recorded now, and is not ready at once. */
static void note_closed(struct cm_heap *heap)
{
	struct cm_batch *epoch = cm_batch_newest(&heap->epochs);

	cm_device_count(heap->device, CM_SCALAR_epochs_closed, epoch->closes);
	epoch->closes = 0;
	epoch->closed_ns = heap->cache->ops->now_ns();
}

bool cm_epoch_close_event_locked(struct cm_heap *heap)
{
	if (!close_epoch(heap, false))
		return false;
	note_closed(heap);
	return true;
}

struct cm_idle cm_epoch_begin_idle_event_locked(const struct cm_device *device)
{
	struct cm_idle idle = {
		/* cm_device_work; acquire: what is counted behind it cm_epoch_is_idle sees, and
		 * all work before it is found under way or ended. */
		.work = __atomic_load_n(device->work_number, __ATOMIC_ACQUIRE),
		.barriers = device->first->barriers,
	};

	idle.ns = !cm_cache_is_work_under_way(device->cache);
	return idle;
}

void cm_epoch_end_idle_event_locked(struct cm_device *device, struct cm_idle idle)
{
	assert(cm_lock_is_held(&device->cache->event_lock));
	if (idle.ns)
		idle.ns = device->cache->ops->now_ns();
	device->first->idle = idle;
}

bool cm_epoch_is_idle(struct cm_device *device)
{
	const struct cm_idle *idle = &device->first->idle;

	return CM_WITH_LOCK(&device->cache->event_lock,
			    idle->ns && idle->work == cm_device_work(device) &&
				    idle->barriers == device->first->barriers &&
				    device->cache->ops->now_ns() - idle->ns < CM_PATIENCE_NS);
}

bool cm_epoch_poll_open_event_locked(struct cm_heap *heap)
{
	const struct cm_idle idle = cm_epoch_begin_idle_event_locked(heap->device);

	if (!close_epoch(heap, false))
		return false;
	(void)cm_batch_ring_poll_event_locked(&heap->epochs);
	if (!cm_batch_ring_is_empty(&heap->epochs)) {
		note_closed(heap);
		return false;
	}
	cm_epoch_end_idle_event_locked(heap->device, idle);
	return true;
}

bool cm_epoch_poll_event_locked(struct cm_heap *heap)
{
	const bool ready = cm_ordered_poll_event_locked(heap);

	return cm_batch_ring_poll_event_locked(&heap->epochs) || ready;
}

/* The newest closed epoch behind which a barrier may be laid, or the number before the oldest. */
static uint64_t newest_clean(struct cm_heap *heap)
{
	uint64_t number;

	for (number = heap->epochs.open.number; number > heap->epochs.oldest; number--)
		if (cm_batch_at(&heap->epochs, number - 1)->clean)
			break;
	return number - 1;
}

/* Whether the heap's memory is idle once the work of its own context is, which stands. */
static bool waits_for_its_own_alone(const struct cm_heap *heap)
{
	return !heap->cache->ending && !cm_heap_is_suspended(heap) &&
	       cm_reach_is_alone_event_locked(heap);
}

static bool may_lay_barrier(struct cm_heap *heap)
{
	return heap->can & CM_CAN_CTX_EVENTS && waits_for_its_own_alone(heap);
}

/* For `cudamemstat show`, which cannot see it otherwise. */
static void tell_if_named(struct cm_heap *heap, bool named)
{
	if (named != ((cm_heap_flags(heap) & CM_HEAP_NAMED) != 0))
		__atomic_fetch_xor(&heap->row->flags, CM_HEAP_NAMED, __ATOMIC_RELAXED);
}

bool cm_epoch_may_order_event_locked(struct cm_heap *heap)
{
	const bool may = heap->cache->policy.reuse == CM_REUSE_BARRIER && may_lay_barrier(heap);

	tell_if_named(heap, !may && cm_reach_is_named_event_locked(heap->device));
	return may;
}

bool cm_epoch_is_waited_for_event_locked(struct cm_heap *heap)
{
	return !cm_epoch_may_order_event_locked(heap) || cm_ordered_holds_event_locked(heap);
}

bool cm_epoch_is_worth_closing_event_locked(struct cm_heap *heap)
{
	const struct cm_device *device = heap->device;
	const bool waits = cm_epoch_is_waited_for_event_locked(heap);

	return CM_WITH_LOCK(&heap->device->lock,
			    heap->epochs.open.bytes >=
				    (waits ? device->poll_bytes : device->batch_bytes));
}

/* An epoch that hangs: whatever is ordered behind it may hang, too. */
static bool is_stuck(struct cm_heap *heap)
{
	return !cm_batch_ring_is_empty(&heap->epochs) &&
	       heap->cache->ops->now_ns() -
			       cm_batch_at(&heap->epochs, heap->epochs.oldest)->closed_ns >
		       CM_PATIENCE_NS;
}

/* If there is a clean epoch, lays a barrier behind the newest one: that epoch is then ready, and
 * all before it. */
static bool order_behind_clean(struct cm_heap *heap)
{
	uint64_t number = newest_clean(heap);
	struct cm_batch *epoch = cm_batch_at(&heap->epochs, number);

	if (number + 1 == heap->epochs.oldest || !cm_ordered_has_room_event_locked(heap) ||
	    !cm_fence_order_event_locked(&epoch->fence, heap))
		return false;
	cm_ordered_add_event_locked(heap, number);
	heap->device->first->barriers++;
	epoch->barriers = 1;
	cm_batch_ring_retire_event_locked(&heap->epochs, number + 1);
	return true;
}

bool cm_epoch_barrier_event_locked(struct cm_heap *heap)
{
	bool has_closed, laid;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	if (!may_lay_barrier(heap) || is_stuck(heap))
		return false;
	has_closed = close_epoch(heap, true);
	laid = order_behind_clean(heap);
	/* An epoch that is ready at once needs no time, and reading the clock costs something. */
	if (has_closed && !cm_batch_ring_is_empty(&heap->epochs))
		note_closed(heap);
	return laid;
}

bool cm_epoch_synchronize_event_locked(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;
	uint64_t start = cache->ops->now_ns(), end;
	bool detached;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	detached = cm_batch_ring_detach_event_locked(&heap->epochs, false);
	end = heap->epochs.open.number;
	if (detached)
		cm_batch_at(&heap->epochs, end - 1)->closed_ns = start;
	if (!cm_fence_synchronize_event_locked(cache, heap->device) || cm_heap_is_dead(heap)) {
		if (detached)
			reattach(heap);
		return false;
	}
	cm_device_count(heap->device, CM_SCALAR_waits, 1);
	cm_device_count(heap->device, CM_SCALAR_wait_ns, (int64_t)(cache->ops->now_ns() - start));
	cm_batch_ring_retire_event_locked(&heap->ordered, heap->ordered.open.number);
	cm_batch_ring_retire_event_locked(&heap->epochs, end);
	return true;
}

static struct cm_shard_wait begin_shard_wait(struct cm_heap *heap)
{
	const struct cm_batch *open = &heap->epochs.open;

	return CM_WITH_LOCK(&heap->device->lock,
			    ((struct cm_shard_wait){heap, open->number, open->blocks}));
}

struct cm_program_wait cm_epoch_begin_wait_event_locked(struct cm_heap *heap, uint64_t ctx)
{
	struct cm_program_wait wait = {.ctx = ctx};
	struct cm_heap *each;
	uint32_t at = 0;

	if (heap->ctx != ctx || !waits_for_its_own_alone(heap))
		return wait;
	while (wait.shards < CM_SHARDS_MOST && (each = cm_heap_next_shard(heap, &at)))
		if (cm_heap_pending_bytes(each))
			wait.shard[wait.shards++] = begin_shard_wait(each);
	return wait;
}

static void end_shard_wait(const struct cm_shard_wait *wait)
{
	struct cm_batch_ring *epochs = &wait->heap->epochs;

	/* What was closed before the wait stays closed, and no later epoch has its number. */
	cm_batch_ring_retire_event_locked(epochs, wait->epoch);
	if (cm_batch_ring_detach_same_event_locked(epochs, wait->epoch, wait->blocks))
		cm_batch_ring_retire_event_locked(epochs, wait->epoch + 1);
}

void cm_epoch_end_wait_event_locked(const struct cm_program_wait *wait)
{
	struct cm_heap *heap;
	uint32_t i;

	for (i = 0; i < wait->shards; i++) {
		heap = wait->shard[i].heap;
		if (heap->ctx == wait->ctx && waits_for_its_own_alone(heap))
			end_shard_wait(&wait->shard[i]);
	}
}

bool cm_epoch_can_ask(struct cm_cache *cache)
{
	return CM_WITH_LOCK(&cache->event_lock, cm_fence_is_possible(cache));
}

bool cm_epoch_open_is_clean(struct cm_heap *heap)
{
	return CM_WITH_LOCK(&heap->device->lock,
			    heap->epochs.open.blocks &&
				    heap->epochs.open.work == cm_device_work(heap->device));
}

static bool is_on_its_way(struct cm_device *device)
{
	struct cm_fence *probe = &device->first->probe;

	return CM_WITH_LOCK(&device->cache->event_lock,
			    !cm_fence_is_complete_event_locked(probe, device) && !probe->broken);
}

/* False: it could not be recorded, and says nothing. */
static bool send_probe(struct cm_device *device, struct cm_idle *ret_idle)
{
	struct cm_cache *cache = device->cache;
	bool sent;

	cm_lock_acquire(&cache->event_lock);
	cm_fence_fini_event_locked(&device->first->probe);
	*ret_idle = cm_epoch_begin_idle_event_locked(device);
	sent = !cm_fence_is_possible(cache) ||
	       cm_fence_record_probe_event_locked(device, &device->first->probe);
	device->first->probe_ns = cache->ops->now_ns();
	cm_lock_release(&cache->event_lock);
	return sent;
}

/* Waits for the probe until it is older than the limit: -ETIME. Does not wait for a broken one.
 * -EBUSY: outside the gate. */
static int await_probe(struct cm_device *device, uint64_t limit_ns)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (is_on_its_way(device)) {
		if (ops->now_ns() - device->first->probe_ns >= limit_ns)
			return -ETIME;
		if (!cm_gate_backoff(ops, &backoff))
			return -EBUSY;
	}
	return 0;
}

int cm_epoch_quiesces(struct cm_device *device, uint64_t limit_ns)
{
	struct cm_idle idle;
	bool sent;
	int err;

	assert(cm_lock_is_held(&device->first->reclaim_lock));
	/* An earlier probe that is not complete. */
	err = await_probe(device, limit_ns);
	if (err)
		return err;
	sent = send_probe(device, &idle);
	err = await_probe(device, limit_ns);
	if (err)
		return err;
	if (!sent || device->first->probe.broken)
		return -ETIME;
	cm_lock_acquire(&device->cache->event_lock);
	cm_epoch_end_idle_event_locked(device, idle);
	cm_lock_release(&device->cache->event_lock);
	return 0;
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

	for (i = 0; i < heaps; i++) {
		struct cm_heap *heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);

		cm_batch_ring_forget_event_locked(&heap->epochs, gone);
		cm_batch_ring_forget_event_locked(&heap->ordered, gone);
	}
	for (i = 0; i < devices; i++)
		cm_fence_forget_event_locked(&cache->device[i]->probe, gone);
	/* What is left in its own are events of others. */
	cm_batch_ring_drop_event_locked(&gone->epochs);
	cm_batch_ring_drop_event_locked(&gone->ordered);
	cm_reach_forget_context_event_locked(gone);
	gone->spare_events = 0;
}
