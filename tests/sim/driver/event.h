/* SPDX-License-Identifier: MIT */
/*
 * Events: the work that was current when they were recorded. Caller locks.
 */
#ifndef CM_SIM_EVENT_H
#define CM_SIM_EVENT_H

#include "graph.h"
#include "object.h"
#include "work.h"

struct sim_capture;

struct sim_event {
	struct sim_object object;
	struct sim_ctx *ctx;
	struct sim_event *next; /* of the context */
	struct sim_event *prev;
	unsigned flags;
	struct sim_work *work;       /* NULL: never recorded */
	struct sim_capture *capture; /* the last record was captured by it, or NULL */
	struct sim_nodes frontier;   /* and stands for these nodes */
};

void sim_event_destroy(struct sim_event *event);

#endif
