/* SPDX-License-Identifier: MIT */
#include "tests/model/model_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES  4096u
#define STEPS    500u
#define RUNS_MAX 20000000u
#define PATIENCE 60u /* steps in a row of a thread that spins, before another may */

static void *local; /* the thread-local variable, NULL: none */
static size_t local_bytes;

struct model_run model_run;

/* The decisions of the run, and of how many ways each. */
static struct {
	uint8_t taken[CHOICES], of[CHOICES];
	unsigned count, at;
} choices;

/* ---- decisions ---- */

_Noreturn void model_fail(const char *why)
{
	(void)snprintf(model_run.why, sizeof(model_run.why), "%s", why);
	longjmp(model_run.out, 1);
}

unsigned model_choose(unsigned n)
{
	if (n < 2)
		return 0;
	if (choices.at == CHOICES)
		model_fail("too many decisions in a run");
	if (choices.at == choices.count) {
		choices.taken[choices.count] = 0;
		choices.of[choices.count++] = (uint8_t)n;
	}
	return choices.taken[choices.at++];
}

/* The next way; false: there is none. */
static bool choose_next(void)
{
	while (choices.count &&
	       choices.taken[choices.count - 1] + 1u == choices.of[choices.count - 1])
		choices.count--;
	if (!choices.count)
		return false;
	choices.taken[choices.count - 1]++;
	choices.at = 0;
	return true;
}

/* ---- threads ---- */

struct thread *model_self(void)
{
	return &model_run.thread[model_run.current];
}

uint32_t model_thread(void)
{
	return model_run.current + 1;
}

static bool can_go(const struct thread *thread)
{
	return thread->state == READY || (thread->state == WAITING && thread->timed);
}

static void switch_to(unsigned next)
{
	unsigned before = model_run.current;

	if (next == before)
		return;
	model_run.current = next;
	if (local) {
		memcpy(model_run.thread[before].local, local, local_bytes);
		memcpy(local, model_run.thread[next].local, local_bytes);
	}
	(void)swapcontext(&model_run.thread[before].context, &model_run.thread[next].context);
}

static unsigned bits_of_others(void)
{
	unsigned bits = 0, i;

	for (i = 0; i < model_run.threads; i++)
		if (i != model_run.current && can_go(&model_run.thread[i]))
			bits |= 1u << i;
	return bits;
}

/* Whether a thread that has yielded still gives way: nothing is fair that starves another. */
static bool gives_way(unsigned i)
{
	unsigned k;

	for (k = 0; k < model_run.threads; k++)
		if (model_run.thread[i].behind >> k & 1 && can_go(&model_run.thread[k]))
			return true;
	return false;
}

/* Lets one of those go on that can: the current one first, which costs nothing. */
void model_schedule(void)
{
	struct thread *thread = model_self();
	unsigned option[MODEL_THREADS], n = 0, i, picked;
	bool may_stay = thread->state == READY && !gives_way(model_run.current);

	if (may_stay)
		option[n++] = model_run.current;
	for (i = 0; i < model_run.threads; i++)
		if (i != model_run.current && can_go(&model_run.thread[i]) && !gives_way(i) &&
		    (!may_stay || model_run.preemptions < model_run.scenario->preemptions))
			option[n++] = i;
	for (i = 0; !n && i < model_run.threads; i++)
		if (can_go(&model_run.thread[i]))
			option[n++] = i;
	if (!n) {
		for (i = 0; i < model_run.threads; i++)
			if (model_run.thread[i].state != FINISHED)
				model_fail("deadlock: every thread waits");
		(void)setcontext(&model_run.home);
	}
	picked = option[model_choose(n)];
	if (may_stay && picked != model_run.current)
		model_run.preemptions++;
	if (picked != model_run.current)
		thread->in_a_row = 0;
	model_run.thread[picked].behind = 0;
	for (i = 0; i < model_run.threads; i++)
		model_run.thread[i].behind &= ~(1u << picked);
	if (model_run.thread[picked].state == WAITING) {
		model_run.thread[picked].state = READY;
		model_run.thread[picked].timed_out = true;
	}
	switch_to(picked);
}

/* Before everything that others can see. A load that repeats the last one, with nothing stored
 * since, sees what it saw: nothing new comes of going on elsewhere just then. */
void model_step_at(const struct location *loaded)
{
	struct thread *thread = model_self();

	if (!model_run.running)
		return;
	model_learn_pending();
	if (++model_run.steps > STEPS)
		model_fail("no end: a thread spins for ever");
	if (++thread->in_a_row > PATIENCE)
		thread->behind = bits_of_others();
	if (!loaded || thread->again != loaded || thread->again_count != loaded->count ||
	    thread->behind)
		model_schedule();
	thread->again = loaded;
	thread->again_count = loaded ? loaded->count : 0;
	thread->view.clock[model_run.current]++;
}

void model_step(void)
{
	model_step_at(NULL);
}

void model_yield(void)
{
	model_self()->behind = bits_of_others();
	model_step();
}

static void enter(void)
{
	model_run.scenario->thread[model_run.current]();
	model_learn_pending();
	model_self()->state = FINISHED;
	model_schedule();
}

/* ---- exploring ---- */

static void open_thread(unsigned i)
{
	struct thread *thread = &model_run.thread[i];
	char *stack = thread->stack ? thread->stack : malloc(MODEL_STACK_BYTES);

	if (!stack)
		abort();
	memset(thread, 0, sizeof(*thread));
	thread->stack = stack;
	(void)getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = stack;
	thread->context.uc_stack.ss_size = MODEL_STACK_BYTES;
	thread->context.uc_link = NULL;
	makecontext(&thread->context, enter, 0);
	thread->view.clock[i] = 1;
}

/* False: it failed, and model_run.why says how. */
static bool run_once(void)
{
	volatile bool returned = false;
	unsigned i;

	model_run.locations = model_run.preemptions = model_run.steps = model_run.pendings = 0;
	model_run.now_ns = 0;
	model_run.running = false;
	if (local)
		memset(local, 0, local_bytes);
	memset(&model_run.sc, 0, sizeof(model_run.sc));
	model_forget_touches();
	choices.at = 0;
	if (setjmp(model_run.out))
		return false;
	for (i = 0; i < model_run.threads; i++)
		open_thread(i);
	model_run.current = 0;
	model_run.scenario->setup();
	model_run.running = true;
	(void)getcontext(&model_run.home);
	if (!returned) {
		returned = true;
		model_run.current = model_choose(model_run.threads);
		(void)setcontext(&model_run.thread[model_run.current].context);
	}
	model_run.running = false;
	if (model_run.scenario->finish)
		model_run.scenario->finish();
	return true;
}

static bool explore(const struct model_scenario *scenario)
{
	unsigned runs = 0;
	bool ok;

	model_run.scenario = scenario;
	for (model_run.threads = 0;
	     model_run.threads < MODEL_THREADS && scenario->thread[model_run.threads];)
		model_run.threads++;
	choices.count = 0;
	model_run.why[0] = '\0';
	do {
		ok = run_once();
		if (getenv("MODEL_PROGRESS") && runs % 100000 == 99999)
			(void)fprintf(stderr, "%u runs, %u decisions\n", runs + 1, choices.count);
	} while (++runs < RUNS_MAX && ok && choose_next());
	if (scenario->fails) {
		ok = !ok && strstr(model_run.why, scenario->fails);
		printf("%s %s: found after %u runs: %s\n", ok ? "ok" : "not ok", scenario->name,
		       runs, *model_run.why ? model_run.why : "nothing");
		return ok;
	}
	if (ok && runs == RUNS_MAX) {
		(void)snprintf(model_run.why, sizeof(model_run.why),
			       "too many ways to try them all");
		ok = false;
	}
	printf("%s %s: %u runs%s%s\n", ok ? "ok" : "not ok", scenario->name, runs, ok ? "" : ": ",
	       model_run.why);
	return ok;
}

bool model_is_local(uintptr_t at)
{
	return at >= (uintptr_t)local && at < (uintptr_t)local + local_bytes;
}

void model_thread_local(void *variable, size_t bytes)
{
	if (bytes > MODEL_LOCAL_BYTES)
		abort();
	local = variable;
	local_bytes = bytes;
}

int model_explore(const struct model_scenario *scenarios, size_t n)
{
	bool ok = true;
	size_t i;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", n);
	for (i = 0; i < n; i++)
		ok &= explore(&scenarios[i]);
	return ok ? 0 : 1;
}
