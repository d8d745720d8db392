/* SPDX-License-Identifier: MIT */
/*
 * The made-up programs: each acts on its heap in steps of a tenth of a second.
 */
#ifndef CM_TOOLS_DEMO_ROLES_H
#define CM_TOOLS_DEMO_ROLES_H

#include "tools/demo/heap.h"

#define CM_DEMO_STEP_MS 100

enum cm_demo_end {
	CM_DEMO_GOES_ON,
	CM_DEMO_CRASHES, /* it is killed, and leaves its region */
};

/* One program at work. */
struct cm_demo_role {
	const char *command;
	uint32_t card;
	enum cm_demo_end (*step)(struct cm_demo_heap *heap, uint32_t step);
};

extern const struct cm_demo_role cm_demo_roles[];
extern const size_t cm_demo_role_count;

#endif
