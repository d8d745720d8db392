/* SPDX-License-Identifier: MIT */
#include "allocator/state/life_cycle.h"

#include <assert.h>

#define BIT(state) (1u << CM_STATE_##state)

bool cm_heap_state_may_follow(enum cm_heap_state from, enum cm_heap_state to)
{
	static const uint32_t next[CM_STATE_COUNT] = {
		[CM_STATE_UNUSED] = BIT(SERVING),
		[CM_STATE_SERVING] = BIT(SUSPENDED) | BIT(DRAINING),
		[CM_STATE_SUSPENDED] = BIT(SERVING) | BIT(DRAINING_SUSPENDED),
		[CM_STATE_DRAINING] = BIT(DEAD) | BIT(DRAINING_SUSPENDED) | BIT(UNUSED),
		[CM_STATE_DEAD] = BIT(DRAINING) | BIT(DRAINING_SUSPENDED) | BIT(UNUSED),
		[CM_STATE_DRAINING_SUSPENDED] = BIT(DRAINING) | BIT(UNUSED),
	};

	return next[from] >> to & 1;
}

uint32_t cm_heap_flags_of(enum cm_heap_state state)
{
	return (state == CM_STATE_UNUSED ? 0 : CM_HEAP_USED) |
	       (state >= CM_STATE_DRAINING ? CM_HEAP_DRAINING : 0);
}

static void change_locked(struct cm_heap *heap, enum cm_heap_state to)
{
	const uint32_t shared = to == CM_STATE_UNUSED ? 0 : cm_heap_flags(heap) & CM_HEAP_SHARED;
	const bool was_suspended = cm_heap_is_suspended(heap);

	assert(cm_lock_is_held(&heap->device->lock));
	assert(cm_heap_state_may_follow(cm_heap_state(heap), to));
	atomic_store_explicit(&heap->state, (uint8_t)to, memory_order_relaxed);
	__atomic_store_n(&heap->row->flags, shared | cm_heap_flags_of(to), __ATOMIC_RELAXED);
	if (cm_heap_is_suspended(heap) != was_suspended)
		atomic_fetch_add(&heap->cache->suspended, was_suspended ? UINT32_MAX : 1);
}

void cm_heap_begin_locked(struct cm_heap *heap)
{
	change_locked(heap, CM_STATE_SERVING);
}

void cm_heap_end_locked(struct cm_heap *heap)
{
	change_locked(heap, CM_STATE_UNUSED);
}

bool cm_heap_stop_locked(struct cm_heap *heap)
{
	const enum cm_heap_state state = cm_heap_state(heap);

	if (state != CM_STATE_SERVING && state != CM_STATE_SUSPENDED)
		return false;
	change_locked(heap,
		      state == CM_STATE_SERVING ? CM_STATE_DRAINING : CM_STATE_DRAINING_SUSPENDED);
	return true;
}

void cm_heap_set_suspended_locked(struct cm_heap *heap, bool suspended)
{
	const bool drains = cm_heap_drains(heap);

	assert(cm_lock_is_held(&heap->cache->event_lock) &&
	       cm_lock_is_held(&heap->cache->pinned.lock));
	if (cm_heap_state(heap) == CM_STATE_UNUSED || cm_heap_is_suspended(heap) == suspended)
		return;
	if (suspended)
		change_locked(heap, drains ? CM_STATE_DRAINING_SUSPENDED : CM_STATE_SUSPENDED);
	else
		change_locked(heap, drains ? CM_STATE_DRAINING : CM_STATE_SERVING);
}

void cm_heap_set_dead_event_locked(struct cm_heap *heap, bool dead)
{
	struct cm_heap *each;
	uint32_t at = 0;

	assert(cm_lock_is_held(&heap->cache->event_lock));
	if (cm_heap_is_dead(heap) == dead)
		return;
	while ((each = cm_heap_next_shard(heap, &at))) {
		cm_lock_acquire(&each->device->lock);
		change_locked(each, dead ? CM_STATE_DEAD : CM_STATE_DRAINING);
		cm_lock_release(&each->device->lock);
	}
}
