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

/* A context gets the heap, or has gone. The event lock and the device's lock are held, and of
 * one that has gone the heap drains. */
void cm_heap_begin_locked(struct cm_heap *heap);
void cm_heap_end_locked(struct cm_heap *heap);

/* Caching stops. False: it had. The device's lock is held. */
bool cm_heap_stop_locked(struct cm_heap *heap);

/* The driver is asked to destroy the context, or has refused. Nothing happens to a heap that is
 * suspended already, or no longer. The event lock and the locks of pinned memory and of the
 * device are held. */
void cm_heap_set_suspended_locked(struct cm_heap *heap, bool suspended);

/* The context answers with an error for ever, or no longer; one that does drains. The event lock
 * is held; takes the device's lock where that is news. */
void cm_heap_set_dead_event_locked(struct cm_heap *heap, bool dead);

#endif
