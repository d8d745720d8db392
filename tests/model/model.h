/* SPDX-License-Identifier: MIT */
/*
 * A model checker for small protocols between threads. The real code is compiled as for
 * ThreadSanitizer and linked with a runtime of ours (model.c), which every access then calls. It
 * runs all threads on one, decides before each atomic operation who goes on and what each atomic
 * load sees, and does so again until every decision has been taken every way.
 *
 * What a load may see follows C11: any value that no later one is known to have replaced, by what
 * the thread has read, acquired or fenced. So the weak orders of ARM and POWER are covered, but for
 * loads that see values before they are computed. Plain accesses that nothing orders are reported.
 * futex(2) and membarrier(2) are modelled; time passes only where a wait runs out.
 */
#ifndef CM_TESTS_MODEL_MODEL_H
#define CM_TESTS_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_THREADS 4u

struct model_scenario {
	const char *name;
	void (*setup)(void);                 /* before every run */
	void (*thread[MODEL_THREADS])(void); /* up to the first NULL */
	void (*finish)(void);                /* after every run; may be NULL */
	unsigned preemptions;                /* at most so many threads are interrupted, ~0u: any */
	const char *fails;                   /* NULL; or what must be found: a planted fault */
};

/* Explores each, says how many runs it took; 0, or 1 where one was not as it must be. */
int model_explore(const struct model_scenario *scenarios, size_t n);

/* Gives each thread of the model a value of its own of this variable, zeroes at first: the threads
 * are one to the C library. One variable, of 128 bytes at most. */
void model_thread_local(void *variable, size_t bytes);

/* For scenarios: the run is not as it must be. Does not return. */
_Noreturn void model_fail(const char *why);

#define MODEL_MUST(condition) ((condition) ? (void)0 : model_fail(#condition))

/* The number of the thread that calls, from 1. */
uint32_t model_thread(void);
/* Before what others can see and the runtime can't: any thread may go on. Nothing out of a run. */
void model_step(void);
/* Another thread goes on, if one can. */
void model_yield(void);
/* Waits until `condition` holds: a thread that spins. */
#define MODEL_SPIN_UNTIL(condition) \
	while (!(condition))        \
	model_yield()

/* One of n ways, each of which is tried. */
unsigned model_choose(unsigned n);

/* A planted fault: membarrier(2) does nothing. */
extern bool model_without_membarrier;
/* It answers with an error, from when this is set. */
extern bool model_refuses_membarrier;
/* As much time as any store takes to be seen: what processors keep to, if not C. */
void model_settle(void);

/* A word as another process reads it, by a system call: any value that it may see. */
uint64_t model_peek(const void *addr, size_t bytes);
/* Plain stores to the range are seen by model_peek in any order that the hardware may have. */
void model_publish(const void *addr, size_t bytes);

#endif
