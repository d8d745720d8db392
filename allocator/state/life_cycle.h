/* SPDX-License-Identifier: MIT */
/*
 * The states of a heap (enum cm_heap_state in state.h) and how they follow each other:
 * docs/architecture.md draws them. Nothing else writes heap->state, or the flags in the region that
 * tell a reader of it.
 */
#ifndef CM_ALLOCATOR_STATE_LIFE_CYCLE_H
#define CM_ALLOCATOR_STATE_LIFE_CYCLE_H

#include <stdbool.h>

#include "allocator/state/state.h"

bool cm_heap_state_may_follow(enum cm_heap_state from, enum cm_heap_state to);
/* What the region's CM_HEAP_* say of a heap in that state. */
uint32_t cm_heap_flags_of(enum cm_heap_state state);

/* A context gets the heap, or was destroyed; in the latter case the heap drains already. The event
 * lock and the device's lock are held. */
void cm_heap_begin_locked(struct cm_heap *heap);
void cm_heap_end_locked(struct cm_heap *heap);

/* Caching stops. False: it had stopped before. The device's lock is held. */
bool cm_heap_stop_locked(struct cm_heap *heap);

/* The driver is asked to destroy the context, or has refused. Without effect if the heap is
 * suspended already, or no longer. The event lock and the locks of pinned memory and of the device
 * are held. */
void cm_heap_set_suspended_locked(struct cm_heap *heap, bool suspended);

/* Queries of the context return a sticky error, or no longer do. A heap whose context is dead
 * drains. The event lock is held; takes the device's lock if the state changes. */
void cm_heap_set_dead_event_locked(struct cm_heap *heap, bool dead);

#endif
