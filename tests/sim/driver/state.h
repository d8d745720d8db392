/* SPDX-License-Identifier: MIT */
/*
 * The driver in this process: one lock, whether it has been initialised, and what it keeps for
 * every thread. Everything else in this folder is guarded by the lock.
 */
#ifndef CM_SIM_STATE_H
#define CM_SIM_STATE_H

#include "call.h"

#include <stdatomic.h>
#include <time.h>

enum { SIM_STACK_DEPTH = 64 };

struct sim_ctx;
struct sim_vector;
struct sim_work;

/* A context on a thread's stack; the id tells when the handle has been given to another one. */
struct sim_current {
	struct sim_ctx *ctx;
	uint64_t id;
};

/* A thread's own state; only that thread touches it, but for the counters, which any may read. */
struct sim_thread {
	struct sim_thread *next; /* all that ever were; a dead thread's is given to a new one */
	bool taken;
	bool per_thread;   /* stream 0 of the running call is the thread's own */
	bool in_host_call; /* it runs host functions for streams */
	uint64_t id;       /* never used twice */
	CUstreamCaptureMode capture_mode;
	unsigned depth;
	struct sim_current stack[SIM_STACK_DEPTH];
	const struct sim_work *host_call; /* the function that it runs now */
	struct sim_vector *known;         /* work that it knows to be done: checker.c */
	uint64_t known_by;                /* the id of the thread that knows it */
	unsigned for_allocator;           /* > 0: it works for an allocator */
	uint64_t interrupt;               /* calls until then, 0: never */
	void (*meanwhile)(void *data);
	void *meanwhile_data;
	_Atomic uint64_t calls[SIM_CALL_COUNT];
	_Atomic uint64_t ns[SIM_CALL_COUNT];
};

enum sim_phase {
	SIM_FRESH,  /* before cuInit */
	SIM_READY,  /* after it */
	SIM_FORKED, /* in the child of a process that had initialised */
	SIM_DEAD,   /* exit handlers have run */
};

/* Read as they are by what is hot; written by state.c alone. */
extern __thread struct sim_thread *sim_self;
extern _Atomic enum sim_phase sim_phase_now;

void sim_lock(void);
void sim_unlock(void);

/* Waits for sim_wake() or that much real time, the lock released meanwhile. */
void sim_wait(uint64_t ns);
void sim_wake(void);

static inline enum sim_phase sim_phase(void)
{
	return atomic_load_explicit(&sim_phase_now, memory_order_relaxed);
}

/* Reads the plan and starts the clock at the first call of the process; then nothing. */
void sim_start(void);
/* cuInit: devices exist from here on. */
CUresult sim_initialise(void);

struct sim_thread *sim_thread_join(void);
/* The calling thread's state; NULL when memory is out. */
static inline struct sim_thread *sim_thread_self(void)
{
	return sim_self ? sim_self : sim_thread_join();
}

/* Calls `see` for every thread that ever was. The lock is held. */
void sim_threads_visit(void (*see)(struct sim_thread *thread, void *data), void *data);

/* Calls and nanoseconds of all threads so far. */
uint64_t sim_calls_made(enum sim_call call);
uint64_t sim_calls_ns(enum sim_call call);
void sim_calls_reset(void);

#endif
