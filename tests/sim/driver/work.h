/* SPDX-License-Identifier: MIT */
/*
 * Submitted work and the order it runs in. A piece of work starts when all work it comes after has
 * ended, lasts as long as its operation says, and takes effect at its end; pieces that nothing
 * orders overlap. Streams, events and barriers (stream.h, event.h, context.h) say what comes after
 * what, all of it through sim_work_after(), also where the earlier work has long ended: these
 * edges, the host's waits (sim_work_wait()), and what it is told is done (sim_work_is_seen_done())
 * are the whole happens-before relation, which checker.h keeps.
 *
 * Work is counted: whoever keeps a pointer holds a reference. Caller locks.
 */
#ifndef CM_SIM_WORK_H
#define CM_SIM_WORK_H

#include "operation.h"

struct sim_ctx;
struct sim_edge;
struct sim_vector;

enum sim_work_state {
	SIM_WORK_NEW,     /* not committed */
	SIM_WORK_BLOCKED, /* behind other work */
	SIM_WORK_TIMED,   /* running, ends at end_ns */
	SIM_WORK_POLLING, /* started, lasts until its operation's condition holds */
	SIM_WORK_CALLING, /* its host function runs */
	SIM_WORK_DONE,
};

struct sim_work {
	enum sim_work_state state;
	unsigned refs;
	unsigned blockers; /* work it comes after that has not ended */
	uint64_t sequence; /* order of submission */
	uint64_t start_ns; /* when it was submitted or its last blocker ended */
	uint64_t end_ns;
	struct sim_ctx *ctx;
	struct sim_edge *followers;
	struct sim_work *next; /* of the context's unfinished work, or of spare structs */
	struct sim_work *prev;
	struct sim_work *next_polling;
	struct sim_vector *vector; /* what it comes after: checker.h */
	struct sim_op op;
};

/* Takes over what the operation holds. NULL when memory is out. The caller has a reference. */
struct sim_work *sim_work_create(struct sim_ctx *ctx, const struct sim_op *op);
/* `work`, not committed yet, starts only when `earlier` (NULL: nothing) has ended. */
void sim_work_after(struct sim_work *work, struct sim_work *earlier);
/* Submits it. */
void sim_work_commit(struct sim_work *work);

struct sim_work *sim_work_ref(struct sim_work *work);
void sim_work_unref(struct sim_work *work); /* NULL: nothing */
/* Puts a reference to `work` where another, or NULL, was. */
void sim_work_store(struct sim_work **slot, struct sim_work *work);

static inline bool sim_work_is_done(const struct sim_work *work)
{
	return !work || work->state == SIM_WORK_DONE;
}

/* The same, and the host has been told so. */
bool sim_work_is_seen_done(const struct sim_work *work);

/* Lets everything happen that happens by then; moves the virtual clock there. */
void sim_work_run_until(uint64_t ns);

/* The host waits for the end of the work; the lock is released where real time must pass. */
void sim_work_wait(struct sim_work *work);
/* The same for the driver's own ends: the caller of the call can't count on it. */
void sim_work_await(struct sim_work *work);

/* Lets time pass until all work has ended that ends by itself. */
void sim_work_settle(void);

/* For host_calls.c: the work's host function has returned. */
void sim_work_called(struct sim_work *work);

/* Ends all work of a context as far as it ends by itself; what is left is cut off. */
void sim_work_end_context(struct sim_ctx *ctx);

#endif
