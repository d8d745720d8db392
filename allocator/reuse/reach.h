/* SPDX-License-Identifier: MIT */
/*
 * Which contexts can reach the memory of a device: those whose work freed memory of it waits for.
 *
 * A device's own contexts can. A context of another device can if peer access was given to it
 * (CM_HEAP_SHARED; all contexts count then), or while work submitted to its streams names memory
 * of the device: copies, fills, writes of values, graphs. What has neither cannot reach it.
 *
 * The hooks announce work that names memory (cm_cache_begin_reach) before they submit it, and say
 * when the driver has answered (cm_cache_end_reach). So whoever frees the memory behind that call
 * finds the relation open. It is closed once a fence that was recorded while no submission was
 * under way is complete, unless more was announced since. A submission whose end is never heard, as
 * the thread has left the call, keeps it open: that costs waiting, never memory.
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

/* Whether no work but that of the heap's own context can reach its memory: a barrier in it holds
 * back all. */
bool cm_reach_is_alone_event_locked(const struct cm_heap *heap);

/* The open relation by which contexts of the device `by` reach memory of the device, and in
 * *ret_number how much of it their events show to be done that are recorded from now on. NULL: none
 * is open, or they would show nothing, since a submission is under way. */
struct cm_reach *cm_reach_open_event_locked(struct cm_device *device, const struct cm_device *by,
					    uint64_t *ret_number);

/* The work of this number is done, and all before it. */
void cm_reach_close_event_locked(struct cm_reach *reach, uint64_t number);

/* Contexts of the device may have submitted anything before they were known: they reach all others'
 * memory until fences have shown their work to be done. */
void cm_reach_open_all_event_locked(struct cm_device *by);

/* The heap's context has gone, and its work with it. */
void cm_reach_forget_context_event_locked(const struct cm_heap *gone);

#endif
