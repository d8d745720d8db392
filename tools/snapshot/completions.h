/* SPDX-License-Identifier: MIT */
/*
 * The completion of each free. A ring has one event for all frees of a heap that are completed at
 * one moment (CM_ACTION_FREES_COMPLETED); readers want one for each block, as in PyTorch's
 * snapshot: CM_ACTION_FREE_COMPLETED. A pass over the events of a device makes these of those.
 *
 * A free has one completion at most. It has none if it is not completed yet; if the ring has lost
 * the free itself; or if recording was off when it was completed and its memory was not allocated
 * since. If its memory was, it counts as completed just before that.
 */
#ifndef CM_TOOLS_SNAPSHOT_COMPLETIONS_H
#define CM_TOOLS_SNAPSHOT_COMPLETIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"

static inline bool cm_event_is_of_block(const struct cm_event *event)
{
	return event->action == CM_ACTION_ALLOC || event->action == CM_ACTION_FREE_REQUESTED ||
	       event->action == CM_ACTION_FREE_COMPLETED;
}

/* Stores the places of the events of blocks in `order`, which has room for all: by address, and by
 * place where that is equal. `scratch` has as much room. Returns how many there are. */
size_t cm_events_order_by_address(const struct cm_event *event, size_t events, uint32_t *order,
				  uint32_t *scratch);

/*
 * Replaces each CM_ACTION_FREES_COMPLETED among events in the order of time. `number` is what their
 * rings call them; the events of a heap are in one ring, and in its order. A completion has the
 * size, stack, pool and heap of its free; the time, thread, annotation and number of what it
 * replaces. `event` has room for twice as many. -ENOMEM: nothing was changed.
 */
int cm_completions_derive(struct cm_event *event, const uint64_t *number, size_t *events);

#endif
