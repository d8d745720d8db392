/* SPDX-License-Identifier: MIT */
/*
 * Which contexts can reach the memory of a device. Freed memory of the device waits for their work.
 *
 * A device's own contexts can. A context of another device can if peer access was given to it
 * (CM_HEAP_SHARED; all contexts count then), or while work submitted to its streams names memory
 * of the device: copies, fills, writes of values, graphs. No other context can.
 *
 * The hooks announce work that names memory (cm_cache_begin_reach) before they submit it, and say
 * when the driver has answered (cm_cache_end_reach). So a free that comes after that call finds the
 * relation open. It is closed when a fence is complete that was recorded while no submission was
 * under way, unless more was announced since. If a thread leaves the call by longjmp or
 * cancellation, the relation stays open: that costs waiting, and is safe.
 *
 * The functions here never call the driver, and want the event lock held.
 */
#ifndef CM_ALLOCATOR_REUSE_REACH_H
#define CM_ALLOCATOR_REUSE_REACH_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/state/state.h"

/* Whether contexts of the device `by` can reach memory of the device. */
bool cm_reach_has_event_locked(const struct cm_device *device, const struct cm_device *by);

/* Whether only work of the heap's own context can reach its memory, so that a barrier in that
 * context holds back all of it. */
bool cm_reach_is_alone_event_locked(const struct cm_heap *heap);

/* Whether work of another device that names memory of the device may be under way. */
bool cm_reach_is_named_event_locked(const struct cm_device *device);

/* Finds the open relation by which contexts of the device `by` reach memory of the device. Sets
 * *ret_number to the number of the last submission that events recorded from now on cover. NULL:
 * none is open, or a submission is under way, which such events may not cover. */
struct cm_reach *cm_reach_open_event_locked(struct cm_device *device, const struct cm_device *by,
					    uint64_t *ret_number);

/* The work of this number is done, and all before it. */
void cm_reach_close_event_locked(struct cm_reach *reach, uint64_t number);

/* Contexts of the device may have submitted work before they were known. They reach the memory
 * of all other devices until fences have shown that work to be done. */
void cm_reach_open_all_event_locked(struct cm_device *by);

/* The heap's context has gone, and its work with it. */
void cm_reach_forget_context_event_locked(const struct cm_heap *gone);

#endif
