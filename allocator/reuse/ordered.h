/* SPDX-License-Identifier: MIT */
/*
 * What lies behind ordered barriers (heap->ordered): the context's later work waits for it, and
 * nothing else does.
 *
 * The fence of a barrier is queried for two reasons. Before anything but the context's later work
 * may reach the memory, cm_ordered_settle waits: until the fence is complete, earlier work may
 * still touch what was allocated behind it. And the blocks of NAMED segments, which other devices
 * touch at any time while the program has them, are not made ready by a barrier: they wait for its
 * fence.
 *
 * Thread rule: functions named *_event_locked want the event lock held and no device's lock, and
 * call the driver inside of the capture gate, as in fence.h.
 */
#ifndef CM_ALLOCATOR_REUSE_ORDERED_H
#define CM_ALLOCATOR_REUSE_ORDERED_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Begins the barriers of a context that gets the heap. The device's lock is held. No driver
 * call. */
void cm_ordered_init(struct cm_heap *heap);

/* Whether another barrier can be entered. No driver call. */
bool cm_ordered_has_room_event_locked(struct cm_heap *heap);

/* Enters a barrier that was laid behind the closed epoch of this number, whose fence it takes, and
 * takes the blocks of NAMED segments out of that epoch and those before it. There is room. */
void cm_ordered_add_event_locked(struct cm_heap *heap, uint64_t number);

/* Whether blocks wait for the fence of a barrier. No driver call. */
bool cm_ordered_holds_event_locked(const struct cm_heap *heap);

/* Queries the fences that blocks wait for; true if any block became ready. */
bool cm_ordered_poll_event_locked(struct cm_heap *heap);

/*
 * Something other than the context's own future work is about to reach its memory, and no barrier
 * holds it back: waits until what was allocated behind a barrier is idle, as a cudaFree would have
 * waited. Does not wait for barriers that are laid meanwhile. Called outside the gate, also while a
 * capture is active. No lock is held.
 */
void cm_ordered_settle(struct cm_heap *heap);

#endif
