/* SPDX-License-Identifier: MIT */
#include "allocator/reuse/fence.h"

#include <assert.h>
#include <errno.h>

#include "allocator/reuse/reach.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/report.h"
#include "allocator/state/state.h"
#include "allocator/state/suspended.h"

bool cm_fence_is_possible(const struct cm_cache *cache)
{
	uint32_t i, heaps = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	const struct cm_heap *heap;

	for (i = 0; i < heaps; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		if (heap->ctx && !(heap->can & CM_CAN_CTX_EVENTS))
			return false;
	}
	return true;
}

/* Events are kept with their context; the event lock guards the spare ones. */
static int take_event(struct cm_heap *heap, uint64_t *ret_event)
{
	if (heap->spare_events) {
		*ret_event = heap->spare_event[--heap->spare_events];
		return 0;
	}
	return heap->cache->ops->event_create(heap->ctx, ret_event);
}

static bool keep_event(struct cm_heap *heap, uint64_t event)
{
	if (event == heap->awaited_event) {
		heap->awaited_is_spare = true;
		return true;
	}
	if (heap->spare_events == CM_BATCHES_MAX)
		return false;
	heap->spare_event[heap->spare_events++] = event;
	return true;
}

static void give_event(struct cm_heap *heap, uint64_t event)
{
	if (!keep_event(heap, event) && !cm_heap_is_suspended(heap))
		(void)heap->cache->ops->event_destroy(heap->ctx, event);
}

/* Only a lack of memory may be temporary; other errors last. */
static bool may_last(int err)
{
	return err > 0 && err != CM_DRIVER_NOT_READY && err != CM_DRIVER_OUT_OF_MEMORY;
}

static void fail(struct cm_heap *heap, int err)
{
	if (may_last(err))
		cm_heap_drain(heap);
}

/* Whether the context has nothing left to wait for. Queried each time, since a new context may get
 * its handle some day. */
static bool is_dead(struct cm_heap *heap, int err)
{
	const bool dead = may_last(err) && heap->cache->ops->ctx_is_dead(heap->ctx);

	cm_heap_set_dead_event_locked(heap, dead);
	return dead;
}

static bool has_event_of(const struct cm_fence *fence, const struct cm_device *device)
{
	uint32_t i = 0;

	while (i < fence->events && fence->event[i].heap->device != device->first)
		i++;
	return i < fence->events;
}

/* Stores which submissions of another device the fence covers. They are read once, before the first
 * event of its contexts. */
static void note_reach(const struct cm_fence *fence, struct cm_device *of,
		       struct cm_fence_event *slot)
{
	const struct cm_device *by = slot->heap->device;

	slot->reach = NULL;
	if (of && of->first != by && !has_event_of(fence, by))
		slot->reach = cm_reach_open_event_locked(of, by, &slot->number);
}

static int record_one(struct cm_fence *fence, struct cm_device *of, struct cm_heap *heap)
{
	struct cm_fence_event *slot = &fence->event[fence->events];
	int err;

	if (fence->events == CM_FENCE_CONTEXTS)
		return -1;
	err = take_event(heap, &slot->event);
	if (err)
		return err;
	if (slot->event == heap->seen_event)
		heap->seen_event = 0;
	slot->heap = heap;
	note_reach(fence, of, slot);
	err = heap->cache->ops->event_record(heap->ctx, slot->event);
	if (err) {
		(void)keep_event(heap, slot->event);
		return err;
	}
	fence->events++;
	cm_heap_set_dead_event_locked(heap, false);
	return 0;
}

/* One event for each context. Nothing is recorded in a suspended context: a probe of a device
 * leaves it out, and no other fence is recorded then. A probe says nothing of submissions of other
 * devices. */
static bool record(struct cm_cache *cache, struct cm_device *of, bool is_probe,
		   struct cm_fence *fence)
{
	uint32_t i, heaps = atomic_load_explicit(&cache->heaps, memory_order_acquire);
	struct cm_heap *heap;
	int err;

	assert(cm_lock_is_held(&cache->event_lock));
	assert(!fence->events);
	for (i = 0; i < heaps; i++) {
		heap = atomic_load_explicit(&cache->heap[i], memory_order_relaxed);
		if (!heap->ctx || !cm_heap_is_first(heap) ||
		    (is_probe && cm_heap_is_suspended(heap)) ||
		    (of && !cm_reach_has_event_locked(of, heap->device)))
			continue;
		err = cm_heap_is_suspended(heap) ? -EAGAIN
						 : record_one(fence, is_probe ? NULL : of, heap);
		fail(heap, err);
		if (err && !is_dead(heap, err)) {
			cm_fence_fini_event_locked(fence);
			return false;
		}
	}
	return true;
}

bool cm_fence_record_event_locked(struct cm_cache *cache, struct cm_device *of,
				  struct cm_fence *fence)
{
	return record(cache, of, false, fence);
}

bool cm_fence_record_probe_event_locked(struct cm_device *device, struct cm_fence *fence)
{
	return record(device->cache, device, true, fence);
}

static int query(const struct cm_fence_event *slot, struct cm_device *asks, bool gated)
{
	struct cm_heap *heap = slot->heap;
	const struct cm_driver_ops *ops = heap->cache->ops;
	int err;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	if (slot->event == heap->seen_event)
		return 0;
	cm_device_count(asks, CM_SCALAR_event_queries, 1);
	err = gated ? ops->event_query(heap->ctx, slot->event)
		    : ops->event_query_ungated(heap->ctx, slot->event);
	fail(heap, err);
	return err;
}

static void close_reach(const struct cm_fence *fence)
{
	uint32_t i;

	for (i = 0; i < fence->events; i++)
		if (fence->event[i].reach)
			cm_reach_close_event_locked(fence->event[i].reach, fence->event[i].number);
}

static bool is_complete(struct cm_fence *fence, struct cm_device *asks, bool gated)
{
	struct cm_fence_event *slot;
	uint32_t i;
	int err;

	for (i = 0; i < fence->events; i++) {
		slot = &fence->event[i];
		if (!slot->heap)
			continue;
		if (cm_heap_is_suspended(slot->heap))
			return false;
		err = query(slot, asks, gated);
		if (err && !(gated && is_dead(slot->heap, err))) {
			fence->broken = err != CM_DRIVER_NOT_READY;
			return false;
		}
		/* Events that are given back may have to be destroyed. */
		if (gated) {
			give_event(slot->heap, slot->event);
			slot->heap = NULL;
		}
	}
	close_reach(fence);
	return true;
}

bool cm_fence_is_complete_event_locked(struct cm_fence *fence, struct cm_device *asks)
{
	return is_complete(fence, asks, true);
}

bool cm_fence_is_complete_ungated_event_locked(struct cm_fence *fence, struct cm_device *asks)
{
	return is_complete(fence, asks, false);
}

bool cm_fence_is_device_done_event_locked(const struct cm_fence *fence, struct cm_device *device)
{
	const struct cm_fence_event *slot;
	uint32_t i;

	for (i = 0; i < fence->events; i++) {
		slot = &fence->event[i];
		if (slot->heap && slot->heap->device == device->first &&
		    (cm_heap_is_suspended(slot->heap) || query(slot, device, true)))
			return false;
	}
	return true;
}

bool cm_fence_begin_wait_event_locked(const struct cm_fence *fence, struct cm_heap *heap)
{
	uint32_t i = 0;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	heap = heap->first;
	while (i < fence->events && fence->event[i].heap != heap)
		i++;
	if (i == fence->events || fence->event[i].event == heap->seen_event ||
	    (heap->awaiters && fence->event[i].event != heap->awaited_event) ||
	    heap->cache->ending || cm_heap_is_suspended(heap) || cm_heap_is_dead(heap))
		return false;
	if (!heap->awaiters++)
		heap->awaited_event = fence->event[i].event;
	cm_heap_begin_call_locked(heap);
	return true;
}

static void end_wait(struct cm_heap *heap, bool is_done)
{
	const uint64_t event = heap->awaited_event;

	if (is_done)
		heap->seen_event = event;
	if (--heap->awaiters)
		return;
	heap->awaited_event = 0;
	if (heap->awaited_is_spare)
		(void)keep_event(heap, event);
	heap->awaited_is_spare = false;
}

bool cm_fence_wait_ungated(struct cm_heap *heap)
{
	struct cm_heap *first = heap->first;
	/* Neither changes before the call has ended. */
	const int err = heap->cache->ops->event_wait_ungated(cm_heap_ctx(first),
							     first->awaited_event);

	cm_lock_acquire(&heap->cache->event_lock);
	end_wait(first, !err);
	cm_lock_release(&heap->cache->event_lock);
	cm_heap_end_call(first);
	return !err;
}

bool cm_fence_order_event_locked(const struct cm_fence *fence, struct cm_heap *heap)
{
	int err = -1;
	uint32_t i;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	for (i = 0; i < fence->events; i++)
		if (fence->event[i].heap == heap->first)
			err = heap->cache->ops->ctx_wait_event(heap->ctx, fence->event[i].event);
	if (err)
		fail(heap, err);
	return !err;
}

void cm_fence_fini_event_locked(struct cm_fence *fence)
{
	uint32_t i;

	for (i = 0; i < fence->events; i++)
		if (fence->event[i].heap)
			give_event(fence->event[i].heap, fence->event[i].event);
	/* The many slots behind the last event are not cleared; they mean nothing. */
	fence->events = 0;
	fence->broken = false;
}

void cm_fence_drop_event_locked(struct cm_fence *fence)
{
	uint32_t i;

	for (i = 0; i < fence->events; i++)
		if (fence->event[i].heap)
			(void)keep_event(fence->event[i].heap, fence->event[i].event);
	fence->events = 0;
	fence->broken = false;
}

void cm_fence_move_event_locked(struct cm_fence *fence, struct cm_fence *to)
{
	uint32_t i;

	assert(!to->events);
	for (i = 0; i < fence->events; i++)
		to->event[i] = fence->event[i];
	to->events = fence->events;
	to->broken = fence->broken;
	fence->events = 0;
	fence->broken = false;
}

void cm_fence_forget_event_locked(struct cm_fence *fence, const struct cm_heap *gone)
{
	uint32_t i;

	for (i = 0; i < fence->events; i++)
		if (fence->event[i].heap == gone)
			fence->event[i].heap = NULL;
}

void cm_fence_leave_out_event_locked(struct cm_fence *fence, struct cm_heap *heap)
{
	uint32_t i;

	for (i = 0; i < fence->events; i++)
		if (fence->event[i].heap == heap) {
			(void)keep_event(heap, fence->event[i].event);
			fence->event[i].heap = NULL;
		}
}

/* Waits for the contexts of the device. 0: they are done, or dead. A suspended one can't be waited
 * for. */
static int synchronize(const struct cm_device *device)
{
	struct cm_heap *heap;
	uint32_t at = 0;
	int err;

	while ((heap = cm_device_next_heap(device, &at))) {
		if (!cm_heap_is_first(heap))
			continue;
		err = cm_heap_is_suspended(heap) ? -EAGAIN
						 : device->cache->ops->ctx_synchronize(heap->ctx);
		fail(heap, err);
		if (!is_dead(heap, err) && err)
			return err;
	}
	return 0;
}

bool cm_fence_synchronize_event_locked(struct cm_cache *cache, struct cm_device *of)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	struct cm_device *device;
	struct cm_reach *reach;
	uint64_t number = 0;

	assert(cm_lock_is_held(&cache->event_lock));
	if (cache->ending)
		return false;
	for (i = 0; i < n; i++) {
		device = cache->device[i];
		if (!cm_device_is_first(device) || (of && !cm_reach_has_event_locked(of, device)))
			continue;
		reach = of && of->first != device ? cm_reach_open_event_locked(of, device, &number)
						  : NULL;
		if (synchronize(device))
			return false;
		if (reach)
			cm_reach_close_event_locked(reach, number);
	}
	return true;
}
