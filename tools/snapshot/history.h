/* SPDX-License-Identifier: MIT */
/*
 * The events of a device as what they were about: memory that was handed out, freed, and ready
 * again, each piece with its beginning and its end; and how much was in use after each event. Sizes
 * are what the program asked for.
 *
 * A ring that has lost its oldest events still tells what was there at its beginning: what was
 * freed later, or is there at the end, and was never seen to be handed out.
 */
#ifndef CM_TOOLS_SNAPSHOT_HISTORY_H
#define CM_TOOLS_SNAPSHOT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/snapshot.h"

#define CM_BEFORE UINT32_MAX       /* before the first event */
#define CM_NEVER  (UINT32_MAX - 1) /* not by the end of the events */

/* One piece of memory from hand-out to readiness; numbers of events are within the device's. */
struct cm_span {
	uint64_t addr;
	uint64_t size;       /* asked for */
	uint32_t begin;      /* its alloc; CM_BEFORE */
	uint32_t freed;      /* its free_requested; CM_BEFORE, CM_NEVER */
	uint32_t ready;      /* its free_completed; CM_NEVER */
	uint32_t stack;      /* of its hand-out, an id; 0: none is known */
	uint32_t thread;     /* that asked for it; 0: not known */
	uint32_t annotation; /* a text of CM_TABLE_TEXT */
};

/* After an event. */
struct cm_level {
	uint64_t allocated; /* handed out and not freed */
	uint64_t active;    /* and what is freed and not ready */
	uint64_t reserved;  /* got from the driver */
};

struct cm_history {
	const struct cm_snapshot *snapshot;
	const struct cm_snap_device *device;
	const struct cm_event *event; /* the device's first */
	size_t events;
	struct cm_span *span; /* in the order of their beginning */
	size_t spans;
	struct cm_level start;  /* before the first event */
	struct cm_level *level; /* one an event */
	uint32_t
		peak; /* the event after which most was allocated; CM_BEFORE: it was at the start */
};

/* -ENOMEM. The snapshot must outlive it. */
int cm_history_create(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		      struct cm_history **ret_history);
void cm_history_destroy(struct cm_history *history);

/* What was in use after an event; CM_BEFORE: at the start. */
static inline const struct cm_level *cm_history_level(const struct cm_history *history,
						      uint32_t event)
{
	return event < history->events ? &history->level[event] : &history->start;
}

/* Whether the memory was handed out and not freed after that event. */
static inline int cm_span_is_live_at(const struct cm_span *span, uint32_t event)
{
	const int begun = span->begin == CM_BEFORE || (event != CM_BEFORE && span->begin <= event);

	return begun && span->freed != CM_BEFORE &&
	       (span->freed == CM_NEVER || event == CM_BEFORE || span->freed > event);
}

/* What a flame graph is of. */
enum cm_measure {
	CM_MEASURE_LIVE,      /* in use now */
	CM_MEASURE_PEAK,      /* in use when most was */
	CM_MEASURE_ALLOCATED, /* handed out in the time of the events */
	CM_MEASURE_KEPT,      /* of that, what is still in use */
	CM_MEASURE_COUNT
};

/* What stands behind one stack, for each measure. */
struct cm_sum {
	uint32_t stack; /* index in cm_snapshot.stack */
	uint32_t count[CM_MEASURE_COUNT];
	uint64_t bytes[CM_MEASURE_COUNT];
};

/*
 * Sums by stack, the largest in use first. The caller frees the array. -ENOMEM.
 */
int cm_history_sum(const struct cm_history *history, struct cm_sum **ret_sums, size_t *ret_count);

/* "live", "peak", "allocated", "kept". */
const char *cm_measure_name(enum cm_measure measure);

#endif
