/* SPDX-License-Identifier: MIT */
/*
 * When which addresses of a device were reserved from the driver: its segments, and the pages that
 * were mapped and unmapped. The events are foreign data, and may be incomplete or false.
 */
#ifndef CM_TOOLS_SNAPSHOT_STRETCHES_H
#define CM_TOOLS_SNAPSHOT_STRETCHES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/history.h"

struct cm_stretch {
	uint64_t addr, size;
	uint32_t begin; /* the event; CM_BEFORE */
	uint32_t end;   /* the event; CM_NEVER */
	uint32_t stack; /* an id; 0: unknown */
	bool small, paged;
};

/* Those that are still reserved at the end come first. The caller frees the array. -ENOMEM. */
int cm_stretches_find(const struct cm_history *history, struct cm_stretch **ret_stretches,
		      size_t *ret_count);

#endif
