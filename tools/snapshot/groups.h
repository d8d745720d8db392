/* SPDX-License-Identifier: MIT */
/* The allocations of a device, summed up by what a report is asked for: --by. */
#ifndef CM_TOOLS_SNAPSHOT_GROUPS_H
#define CM_TOOLS_SNAPSHOT_GROUPS_H

#include "tools/snapshot/history.h"
#include "tools/snapshot/lines.h"

struct cm_group {
	const char *name;
	struct cm_sum sum;      /* its stack is one of those of the group */
	uint64_t size;          /* of its allocations, in bytes; by size only */
	uint64_t passing_bytes; /* for the caller */
	uint32_t passing;       /* for the caller */
};

struct cm_groups {
	struct cm_view view;
	struct cm_intern names;
	struct cm_group *group; /* may be sorted, then cm_group_of is void */
	size_t count;
	size_t room;
	uint32_t *of_stack; /* number of the group + 1; 0: not known yet */
};

/* Groups without memory in any measure are not there. -ENOMEM. */
int cm_groups_create(const struct cm_history *history, const struct cm_view *view,
		     struct cm_groups *ret_groups);
void cm_groups_fini(struct cm_groups *groups);

/* The group of an allocation of that history; NULL: not enough memory. */
struct cm_group *cm_group_of(struct cm_groups *groups, const struct cm_snapshot *snapshot,
			     const struct cm_span *span);

#endif
