/* SPDX-License-Identifier: MIT */
/*
 * The life of each allocation, reconstructed from the events of a device: allocated, freed, ready
 * for reuse; and the memory that was allocated, active and reserved after each event. Sizes are
 * requested sizes.
 *
 * A ring that has lost its oldest events still shows what was allocated before the first event that
 * it holds: everything that is freed later, or allocated at the end, without an event that
 * allocates it.
 */
#ifndef CM_TOOLS_SNAPSHOT_HISTORY_H
#define CM_TOOLS_SNAPSHOT_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/snapshot.h"

#define CM_BEFORE UINT32_MAX       /* before the first event */
#define CM_NEVER  (UINT32_MAX - 1) /* not by the end of the events */

/* One allocation, from its request until it is ready for reuse. Events are counted per device. */
struct cm_span {
	uint64_t addr;
	uint64_t size;       /* requested */
	uint32_t begin;      /* the alloc event; CM_BEFORE */
	uint32_t freed;      /* the free_requested event; CM_BEFORE, CM_NEVER */
	uint32_t ready;      /* the free_completed event; CM_NEVER */
	uint32_t stack;      /* id of the stack of the allocation; 0: unknown */
	uint32_t thread;     /* that allocated it; 0: unknown */
	uint32_t annotation; /* a text of CM_TABLE_TEXT */
};

/* The state after an event, in bytes. */
struct cm_level {
	uint64_t allocated; /* allocated and not freed */
	uint64_t active;    /* allocated or pending free */
	uint64_t reserved;  /* from the driver */
};

struct cm_history {
	const struct cm_snapshot *snapshot;
	const struct cm_snap_device *device;
	const struct cm_event *event; /* the device's first */
	size_t events;
	struct cm_span *span; /* by begin */
	size_t spans;
	struct cm_level start;  /* before the first event */
	struct cm_level *level; /* one per event */
	uint32_t peak; /* the event after which most was allocated; CM_BEFORE: at the start */
};

/* -ENOMEM. The snapshot must outlive it. */
int cm_history_create(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		      struct cm_history **ret_history);
void cm_history_destroy(struct cm_history *history);

/* The level after an event; CM_BEFORE: at the start. */
static inline const struct cm_level *cm_history_level(const struct cm_history *history,
						      uint32_t event)
{
	return event < history->events ? &history->level[event] : &history->start;
}

/* The time of an event, in nanoseconds since 1970. */
uint64_t cm_history_time(const struct cm_history *history, size_t event);
/* The latest time of an event; one that is later than the snapshot is damaged. */
uint64_t cm_history_end(const struct cm_history *history);

/* What a flame graph shows. */
enum cm_measure {
	CM_MEASURE_LIVE,      /* allocated at the end */
	CM_MEASURE_PEAK,      /* allocated at the peak */
	CM_MEASURE_ALLOCATED, /* allocated during the events */
	CM_MEASURE_KEPT,      /* of these, still allocated at the end */
	CM_MEASURE_COUNT
};

/* The allocations of one stack, for each measure. */
struct cm_sum {
	uint32_t stack; /* index in cm_snapshot.stack */
	uint32_t count[CM_MEASURE_COUNT];
	uint64_t bytes[CM_MEASURE_COUNT];
};

/* Adds an allocation to the measures that it belongs to. */
void cm_sum_add(struct cm_sum *sum, const struct cm_history *history, const struct cm_span *span);

/* Compares sums for qsort(3), the largest first by the measure; equal ones by stack. */
int cm_sum_compare(const struct cm_sum *x, const struct cm_sum *y, enum cm_measure measure);

/* Receives the sums of a device by stack, the largest CM_MEASURE_LIVE first. Ends the visit with
 * what is not 0. */
typedef int (*cm_sums_fn)(void *data, const struct cm_snap_device *device,
			  const struct cm_sum *sums, size_t count);
/* Visits the devices in their order, those without sums too. -ENOMEM, or what fn returned. */
int cm_sums_each(const struct cm_snapshot *snapshot, cm_sums_fn fn, void *data);

/* "live", "peak", "allocated", "kept". */
const char *cm_measure_name(enum cm_measure measure);

#endif
