/* SPDX-License-Identifier: MIT */
/*
 * What took services away from a process: calls, objects and variables (enum cm_cause), with the
 * stacks of the calls. The region is foreign data: what makes no sense is left out.
 */
#ifndef CM_TOOLS_SNAPSHOT_CAUSES_H
#define CM_TOOLS_SNAPSHOT_CAUSES_H

#include "stats/reader.h"
#include "tools/snapshot/image.h"
#include "tools/snapshot/snapshot.h"

#define CM_CAUSE_BYTES 128

struct cm_causes {
	char by[CM_CAUSE_COUNT][CM_CAUSE_BYTES]; /* free of control characters; "": unknown */
	uint32_t stack[CM_CAUSE_COUNT];          /* in the snapshot, 0: none */
	struct cm_snapshot *snapshot;            /* of these stacks alone; NULL: there are none */
	struct cm_image *image;
};

/* Reads them by the reader's header. The names of a stack come from this machine's files. -ENOMEM,
 * -EIO: nothing is known then, and nothing is to be freed. */
int cm_causes_read(struct cm_reader *reader, const char *hide, struct cm_causes *ret_causes);
void cm_causes_free(struct cm_causes *causes);

/* The stack of a cause; the empty one if there is none, NULL if there are none at all. */
const struct cm_snap_stack *cm_causes_stack(const struct cm_causes *causes, enum cm_cause cause);

#endif
