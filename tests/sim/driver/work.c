/* SPDX-License-Identifier: MIT */
#include "work.h"

#include <stdlib.h>

#include "checker.h"
#include "clock.h"
#include "context.h"
#include "host_calls.h"
#include "plan.h"
#include "shared_event.h"
#include "state.h"
#include "timeline.h"
#include "vector.h"

/* How long a wait sleeps for when it does not know for how long: the flag is set elsewhere. */
enum { POLL_NS = 20000 };
/* A wait gives a host function that long of real time before time goes on without its end. */
enum { HOST_CALL_NS = 100000000 };
/* Sleeping is exact to about that much; the rest is spun. */
enum { SLEEP_SLACK_NS = 100000 };

struct sim_edge {
	struct sim_work *work;
	struct sim_edge *next;
};

static struct sim_work *spare_work;
static struct sim_edge *spare_edges;
static struct sim_work *polling;
static uint64_t last_sequence;

static void start(struct sim_work *work);

struct sim_work *sim_work_create(struct sim_ctx *ctx, const struct sim_op *op)
{
	struct sim_work *work = spare_work;

	if (work)
		spare_work = work->next;
	else
		work = malloc(sizeof(*work));
	if (!work)
		return NULL;
	*work = (struct sim_work){
		.refs = 1,
		.ctx = ctx,
		.op = *op,
		.sequence = ++last_sequence,
	};
	sim_checker_created(work);
	return work;
}

struct sim_work *sim_work_ref(struct sim_work *work)
{
	work->refs++;
	return work;
}

void sim_work_unref(struct sim_work *work)
{
	if (!work || --work->refs)
		return;
	sim_op_release(&work->op);
	sim_vector_unref(work->vector);
	work->next = spare_work;
	spare_work = work;
}

void sim_work_store(struct sim_work **slot, struct sim_work *work)
{
	struct sim_work *old = *slot;

	*slot = work ? sim_work_ref(work) : NULL;
	sim_work_unref(old);
}

void sim_work_after(struct sim_work *work, struct sim_work *earlier)
{
	struct sim_edge *edge = spare_edges;

	if (earlier)
		sim_checker_after(work, earlier);
	if (sim_work_is_done(earlier))
		return;
	if (edge)
		spare_edges = edge->next;
	else
		edge = malloc(sizeof(*edge));
	if (!edge)
		abort(); /* an order that is lost would be worse than a simulator that stops */
	edge->work = sim_work_ref(work);
	edge->next = earlier->followers;
	earlier->followers = edge;
	work->blockers++;
}

bool sim_work_is_seen_done(const struct sim_work *work)
{
	if (!sim_work_is_done(work))
		return false;
	sim_checker_learnt(work);
	return true;
}

static void link_running(struct sim_work *work)
{
	struct sim_ctx *ctx = work->ctx;

	work->prev = NULL;
	work->next = ctx->running;
	if (work->next)
		work->next->prev = work;
	ctx->running = work;
}

static void unlink_running(struct sim_work *work)
{
	if (work->next)
		work->next->prev = work->prev;
	if (work->prev)
		work->prev->next = work->next;
	else
		work->ctx->running = work->next;
}
/* The work is over: what came after it alone may start. */
static void complete(struct sim_work *work)
{
	struct sim_edge *edge = work->followers;

	work->state = SIM_WORK_DONE;
	work->followers = NULL;
	unlink_running(work);
	if (work->op.kind == SIM_OP_HOST)
		sim_host_calls_done();
	if (work->op.kind == SIM_OP_POST) {
		/* Also if its context is broken: other processes must not wait for ever. */
		sim_shared_event_complete(work->op.u.record.event, work->op.u.record.number);
		sim_host_calls_posted();
	}
	while (edge) {
		struct sim_edge *next = edge->next;
		struct sim_work *follower = edge->work;

		if (follower->start_ns < work->end_ns)
			follower->start_ns = work->end_ns;
		if (--follower->blockers == 0 && follower->state == SIM_WORK_BLOCKED)
			start(follower);
		sim_work_unref(follower);
		edge->next = spare_edges;
		spare_edges = edge;
		edge = next;
	}
	sim_work_unref(work);
}

/* Its time has come: the effect, unless the context is broken, and the end. */
static void finish(struct sim_work *work)
{
	CUresult result = CUDA_SUCCESS;

	if (work->op.kind == SIM_OP_HOST && !work->ctx->error) {
		work->state = SIM_WORK_CALLING;
		sim_host_calls_add(work);
		return;
	}
	sim_checker_acts(work->vector);
	if (!work->ctx->error)
		result = sim_op_run(&work->op);
	sim_checker_acted();
	if (result != CUDA_SUCCESS)
		work->ctx->error = result;
	complete(work);
}

void sim_work_called(struct sim_work *work)
{
	if (work->end_ns < sim_clock_now())
		work->end_ns = sim_clock_now();
	complete(work);
}

static void start(struct sim_work *work)
{
	if (sim_op_polls(&work->op) && !sim_op_is_over(&work->op)) {
		work->state = SIM_WORK_POLLING;
		work->next_polling = polling;
		polling = work;
		return;
	}
	work->state = SIM_WORK_TIMED;
	work->end_ns = work->start_ns + work->op.duration_ns;
	if (sim_timeline_add(work))
		abort();
}

/* Over as soon as nothing is before it. */
static bool is_instant(const struct sim_op *op)
{
	if (op->duration_ns)
		return false;
	return op->kind == SIM_OP_MARK || op->kind == SIM_OP_POST ||
	       (op->kind == SIM_OP_AWAIT && sim_op_is_over(op));
}

void sim_work_commit(struct sim_work *work)
{
	sim_work_ref(work);
	link_running(work);
	if (work->op.kind == SIM_OP_HOST)
		sim_host_calls_expect();
	if (work->op.kind == SIM_OP_POST)
		sim_host_calls_expect_post();
	if (work->start_ns < sim_clock_now())
		work->start_ns = sim_clock_now();
	if (work->blockers) {
		work->state = SIM_WORK_BLOCKED;
		return;
	}
	if (is_instant(&work->op)) {
		work->end_ns = work->start_ns;
		complete(work);
		return;
	}
	start(work);
}

/* Conditions may have come true by the host's hand, or by the work that has just ended. */
static void poll_conditions(void)
{
	struct sim_work **link = &polling;

	while (*link) {
		struct sim_work *work = *link;

		if (!sim_op_is_over(&work->op) && !work->ctx->error) {
			link = &work->next_polling;
			continue;
		}
		*link = work->next_polling;
		work->start_ns = sim_clock_now();
		work->state = SIM_WORK_TIMED;
		work->end_ns = work->start_ns + work->op.duration_ns;
		if (sim_timeline_add(work))
			abort();
	}
}

void sim_work_run_until(uint64_t ns)
{
	struct sim_work *work;

	if (polling)
		poll_conditions();
	while ((work = sim_timeline_first()) && work->end_ns <= ns) {
		sim_clock_set(work->end_ns);
		sim_timeline_remove_first();
		finish(work);
		if (polling)
			poll_conditions();
	}
	sim_clock_set(ns);
}

static void pass_real_time(uint64_t ns)
{
	if (ns > SLEEP_SLACK_NS)
		sim_wait(ns - SLEEP_SLACK_NS);
	else
		sim_clock_spend(ns);
}

/*
 * Nothing is known to end: host functions run, or a condition is to come true by another's hand.
 * True when real time has brought something about.
 */
static bool wait_for_others(void)
{
	if (sim_host_calls_pending()) {
		sim_wait(HOST_CALL_NS);
		return !sim_host_calls_pending();
	}
	if (!sim_timeline_first())
		sim_wait(POLL_NS);
	return sim_timeline_first() != NULL;
}

/* Lets time pass until something happens. */
static void step(void)
{
	const struct sim_work *first;
	uint64_t now;

	if ((sim_host_calls_pending() || !sim_timeline_first()) && wait_for_others()) {
		sim_work_run_until(sim_clock_now());
		return;
	}
	now = sim_clock_now();
	first = sim_timeline_first();
	if (sim_plan.real_time && first && first->end_ns > now)
		pass_real_time(first->end_ns - now);
	if (sim_plan.real_time)
		now = sim_clock_now();
	else
		now = first ? first->end_ns : now;
	sim_work_run_until(now);
}

void sim_work_await(struct sim_work *work)
{
	sim_work_ref(work);
	while (work->state != SIM_WORK_DONE)
		step();
	sim_work_unref(work);
}

void sim_work_wait(struct sim_work *work)
{
	sim_work_ref(work);
	sim_work_await(work);
	sim_checker_learnt(work);
	sim_work_unref(work);
}

void sim_work_settle(void)
{
	while (sim_timeline_first() || sim_host_calls_pending())
		step();
}

/* Takes work that is not done off whatever list it is on. */
static void cut_off(struct sim_work *work)
{
	if (work->state == SIM_WORK_TIMED)
		sim_timeline_remove(work);
	for (struct sim_work **link = &polling; *link; link = &(*link)->next_polling) {
		if (*link == work) {
			*link = work->next_polling;
			break;
		}
	}
	work->end_ns = sim_clock_now();
	complete(work);
}

void sim_work_end_context(struct sim_ctx *ctx)
{
	while (ctx->running && (sim_timeline_first() || sim_host_calls_pending()))
		step();
	if (!ctx->error)
		ctx->error = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	while (ctx->running) {
		sim_work_run_until(sim_clock_now());
		for (struct sim_work *work = ctx->running; work; work = work->next) {
			if (!work->blockers || work->state != SIM_WORK_BLOCKED) {
				cut_off(work);
				break;
			}
		}
	}
}
