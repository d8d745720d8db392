/* SPDX-License-Identifier: MIT */
#include "host_calls.h"

#include <pthread.h>
#include <signal.h>

#include "state.h"
#include "work.h"

enum { ROOM = 1024, IDLE_NS = 1000000000 };

static struct sim_work *queue[ROOM];
static unsigned first;
static unsigned waiting;
static unsigned running;
static bool started;

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

		while (!waiting)
			sim_wait(IDLE_NS);
		work = queue[first];
		first = (first + 1) % ROOM;
		waiting--;
		running++;
		call = work->op.u.host;
		sim_unlock();
		if (call.function)
			call.function(call.data);
		else
			call.callback(call.stream, CUDA_SUCCESS, call.data);
		sim_lock();
		running--;
		sim_work_called(work);
		sim_wake();
	}
	return NULL;
}

/* The thread takes no signal of the program's. */
static bool start_thread(void)
{
	sigset_t all;
	sigset_t old;
	pthread_attr_t attributes;
	pthread_t thread;
	bool ok;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	ok = pthread_create(&thread, &attributes, serve, NULL) == 0;
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
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
