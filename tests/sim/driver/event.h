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
struct sim_shared_event;

struct sim_event {
	struct sim_object object;
	struct sim_ctx *ctx;
	struct sim_event *next; /* of the context */
	struct sim_event *prev;
	unsigned flags;
	struct sim_work *work;           /* NULL: never recorded; see sim_event_work() */
	struct sim_capture *capture;     /* the last record was captured by it, or NULL */
	struct sim_nodes frontier;       /* and stands for these nodes */
	struct sim_shared_event *shared; /* what other processes know of it, or NULL */
	uint64_t number;                 /* the last record of it that `work` stands for */
};

/* Makes `work` the last record, for other processes as well. */
void sim_event_store(struct sim_event *event, struct sim_work *work);
/* The last record, whichever process made it, or NULL. Not a reference. */
struct sim_work *sim_event_work(struct sim_event *event);

void sim_event_destroy(struct sim_event *event);

#endif
