/* SPDX-License-Identifier: MIT */
/*
 * What the parts of the model share: model.c (decisions, threads, exploring), model_memory.c (what
 * a load may see, races, and what the compiler calls for ThreadSanitizer) and model_kernel.c
 * (futex, membarrier, time). For them alone. One thread runs at a time.
 */
#ifndef CM_TESTS_MODEL_MODEL_PARTS_H
#define CM_TESTS_MODEL_MODEL_PARTS_H

#include <setjmp.h>
#include <ucontext.h>

#include "tests/model/model.h"

#define MODEL_LOCATIONS   48u
#define MODEL_MESSAGES    512u
#define MODEL_STACK_BYTES (64u * 1024)
#define MODEL_LOCAL_BYTES 128u /* of a thread-local variable */

/* What a thread knows: of each location the oldest value that it can still see, of each thread how
 * far it has come. */
struct view {
	uint16_t seen[MODEL_LOCATIONS];
	uint32_t clock[MODEL_THREADS];
};

struct message {
	uint64_t value;
	struct view view; /* what who acquires it learns */
};

struct location {
	const void *addr;
	size_t bytes;
	unsigned count;
	unsigned sc_floor; /* the last sequentially consistent store */
	bool plain;        /* published, stored to by plain stores */
	struct view futex; /* what the kernel's lock on it hands on */
	struct message message[MODEL_MESSAGES];
};

enum state { READY, WAITING, FINISHED };

struct thread {
	ucontext_t context;
	enum state state;
	bool timed, timed_out;
	unsigned behind; /* threads, as bits, that have to go on before this one that has yielded */
	unsigned in_a_row;
	const struct location *again; /* loaded by the last step, when it had so many values */
	unsigned again_count;
	const void *waits_on;
	struct view view, acquired,
		released; /* acquired: by loads before a fence; released: by one */
	struct location *stale;
	unsigned stale_message, stale_reads;
	unsigned char local[MODEL_LOCAL_BYTES]; /* its value, while another thread runs */
	char *stack;
};

struct model_run {
	const struct model_scenario *scenario;
	struct thread thread[MODEL_THREADS];
	unsigned threads, current, preemptions, steps;
	bool running; /* threads, and not setup or finish */
	struct location location[MODEL_LOCATIONS];
	unsigned locations;
	struct view sc;
	uint64_t now_ns;
	struct location *pending[MODEL_LOCATIONS]; /* plain stores whose value is not there yet */
	unsigned pendings;
	ucontext_t home;
	jmp_buf out;
	char why[300];
};

extern struct model_run model_run;

/* model.c */
struct thread *model_self(void);
/* Before everything that others can see; `loaded`: the location that is about to be loaded. */
void model_step_at(const struct location *loaded);
/* Lets a thread go on that can, which may be the current one. */
void model_schedule(void);
/* Whether the address is in the variable that each thread has of its own. */
bool model_is_local(uintptr_t at);

/* model_memory.c */
void model_join(struct view *view, const struct view *other);
struct location *model_locate(const void *addr, size_t bytes);
uint64_t model_load(struct location *location, int order);
void model_fence_sc(struct thread *thread);
/* Plain stores that wait for their values have them now. */
void model_learn_pending(void);
/* A new run begins: nothing has been touched. */
void model_forget_touches(void);

#endif
