/* SPDX-License-Identifier: MIT */
/*
 * Leaves parts of a snapshot out: old events, small allocations, stacks that hold little. Segments
 * and blocks stay, as they tile each other; the figures that come from them stay true.
 */
#ifndef CM_TOOLS_SNAPSHOT_CUT_H
#define CM_TOOLS_SNAPSHOT_CUT_H

#include <stdint.h>

#include "tools/snapshot/snapshot.h"

/* What stays; 0: all. */
struct cm_cut {
	uint64_t last;           /* events of each device */
	uint64_t since_ns;       /* events from this time on, since 1970 */
	uint64_t min_size_bytes; /* allocations of at least so many bytes */
	uint64_t stacks;         /* those with most bytes; the others become one */
};

/* How much was left out. */
struct cm_cut_report {
	uint64_t old_events;
	uint64_t small_events;
	uint64_t small_blocks; /* allocated now */
	uint64_t stacks;       /* summed up as one */
};

/* -ENOMEM: the snapshot is to be destroyed. */
int cm_snapshot_cut(struct cm_snapshot *snapshot, const struct cm_cut *cut,
		    struct cm_cut_report *ret_report);

/* The times of the oldest and the youngest event, since 1970; 0: there is none. A time later than
 * the snapshot is damaged. */
void cm_snapshot_times(const struct cm_snapshot *snapshot, uint64_t *ret_first_ns,
		       uint64_t *ret_last_ns);

#endif
