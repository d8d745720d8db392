/* SPDX-License-Identifier: MIT */
#include "host_calls.h"

#include <pthread.h>
#include <signal.h>

#include "clock.h"
#include "plan.h"
#include "state.h"
#include "timeline.h"
#include "work.h"

enum { ROOM = 1024, IDLE_NS = 1000000000, LOOK_NS = 200000 };

static struct sim_work *queue[ROOM];
static unsigned first;
static unsigned waiting;
static unsigned running;
static unsigned expected; /* submitted, and not done */
static unsigned posts;    /* the same, of those that other processes wait for */
static bool started;
static bool stopping;
static pthread_t server;

/*
 * No process knows what another one's virtual time is. So time passes here as long as another
 * process may wait for something that ends by itself.
 */
static void pass_for_others(void)
{
	sim_wait(LOOK_NS);
	sim_work_run_until(sim_clock_now());
	while (posts && sim_timeline_first())
		sim_work_run_until(sim_timeline_first()->end_ns);
}

/*
 * By the clock on the wall a function's time comes also while its program waits for it by means of
 * its own, and calls the driver no more.
 */
static void wait_for_one(void)
{
	if (posts && !sim_plan.real_time) {
		pass_for_others();
		return;
	}
	if (!sim_plan.real_time || !(expected || posts)) {
		sim_wait(IDLE_NS);
		return;
	}
	sim_work_run_until(sim_clock_now());
	if (!waiting && !stopping)
		sim_wait(LOOK_NS);
}

static void *serve(void *unused)
{
	(void)unused;
	/* Only for its own sake: what a host function calls of the driver is refused. */
	if (sim_thread_self())
		sim_self->in_host_call = true;
	sim_lock();
	for (;;) {
		struct sim_work *work;
		struct sim_host_call call;

		while (!waiting && !stopping)
			wait_for_one();
		if (stopping)
			break;
		work = queue[first];
		first = (first + 1) % ROOM;
		waiting--;
		running++;
		call = work->op.u.host;
		if (sim_self)
			sim_self->host_call = work;
		sim_unlock();
		if (call.function)
			call.function(call.data);
		else
			call.callback(call.stream, CUDA_SUCCESS, call.data);
		sim_lock();
		if (sim_self)
			sim_self->host_call = NULL;
		running--;
		sim_work_called(work);
		sim_wake();
	}
	sim_unlock();
	return NULL;
}

/* The thread takes no signal of the program's. */
static bool start_thread(void)
{
	sigset_t all;
	sigset_t old;
	bool ok;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ok = pthread_create(&server, NULL, serve, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

void sim_host_calls_expect(void)
{
	expected++;
	if (!sim_plan.real_time)
		return;
	if (!started)
		started = start_thread();
	sim_wake();
}

void sim_host_calls_done(void)
{
	expected--;
}

void sim_host_calls_expect_post(void)
{
	posts++;
	if (!started)
		started = start_thread();
	sim_wake();
}

void sim_host_calls_posted(void)
{
	posts--;
}

void sim_host_calls_add(struct sim_work *work)
{
	if (!started)
		started = start_thread();
	while (started && waiting == ROOM)
		sim_wait(IDLE_NS);
	if (!started) {
		sim_work_called(work);
		return;
	}
	queue[(first + waiting) % ROOM] = work;
	waiting++;
	sim_wake();
}

bool sim_host_calls_pending(void)
{
	return waiting || running;
}

void sim_host_calls_stop(void)
{
	bool idle;

	sim_lock();
	stopping = true;
	idle = started && !running;
	sim_wake();
	sim_unlock();
	if (idle)
		pthread_join(server, NULL);
}
