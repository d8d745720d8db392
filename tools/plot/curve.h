/* SPDX-License-Identifier: MIT */
/*
 * The timeline of a device as numbers: for each of some columns of equal time, what the stacks with
 * most memory held after one event. Of the events of a column it is the one after which most was
 * allocated, so no peak is lost, and the bands of a column add up to what was allocated.
 */
#ifndef CM_TOOLS_PLOT_CURVE_H
#define CM_TOOLS_PLOT_CURVE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/groups.h"
#include "tools/snapshot/history.h"

/* The allocations of one row of a report, or of all rows that have no band of their own. */
struct cm_band {
	const char *name;
	uint64_t peak_bytes; /* held at the peak of the device */
	uint64_t *bytes;     /* one a column */
};

struct cm_curve {
	size_t columns;
	uint32_t *event;      /* whose state a column shows; CM_BEFORE: before the first */
	uint64_t *reserved;   /* bytes, one a column */
	uint64_t *outside;    /* the most outside the cache, one a column; NULL: there is none */
	struct cm_band *band; /* the largest first; the last one is that of all others */
	size_t bands;
	size_t others; /* rows in that last one */
	uint64_t most; /* the largest sum of a column */
	uint64_t most_reserved;
	uint64_t most_outside;
	uint64_t most_total; /* reserved and outside the cache */
	uint64_t start_ns;   /* the first event, in the cache or outside */
	uint64_t span_ns;    /* from there to the last */
	struct cm_groups groups;
};

/* -ENOMEM. The history must outlive it. */
int cm_curve_create(const struct cm_history *history, size_t columns, size_t bands,
		    struct cm_curve **ret_curve);
void cm_curve_destroy(struct cm_curve *curve);

#endif
