/* SPDX-License-Identifier: MIT */
/*
 * The named ranges of a program (NVTX, cudamem_annotation_push) as its events tell them: each event
 * bears the innermost range of its thread, so a range is known from the first event that bears it
 * to the last one in a row.
 */
#ifndef CM_TOOLS_SNAPSHOT_RANGES_H
#define CM_TOOLS_SNAPSHOT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/snapshot.h"

struct cm_edge {
	uint64_t time_ns;
	uint32_t text; /* in CM_TABLE_TEXT */
	int32_t ordinal;
	bool end;
	size_t order; /* of those at one time: as they were found */
};

/* Begins and ends by time, of all devices; the caller frees them. -ENOMEM. */
int cm_ranges_find(const struct cm_snapshot *snapshot, struct cm_edge **ret_edges,
		   size_t *ret_count);

#endif
