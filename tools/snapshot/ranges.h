/* SPDX-License-Identifier: MIT */
/*
 * The named ranges of a program (NVTX, cudamem_annotation_push), as far as its events show them:
 * each event names the ranges that its thread is in, so a range extends from the first of
 * consecutive events of a thread that name it to the last one. Ranges of a thread are nested.
 */
#ifndef CM_TOOLS_SNAPSHOT_RANGES_H
#define CM_TOOLS_SNAPSHOT_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/snapshot.h"

struct cm_edge {
	uint64_t time_ns;
	const char *name; /* `bytes` long, in the image */
	size_t bytes;
	int32_t ordinal;
	bool end;
	size_t order; /* for edges of the same time: as they were found */
};

/* The begins and ends of ranges on all devices, by time; the caller frees the array. -ENOMEM. */
int cm_ranges_find(const struct cm_snapshot *snapshot, struct cm_edge **ret_edges,
		   size_t *ret_count);

#endif
