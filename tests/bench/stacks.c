/* SPDX-License-Identifier: MIT */
/*
 * What recording costs: events, and stacks by depth, known to the library and new to it. A pair of
 * cuMemAlloc and cuMemFree is timed with each kind of recording by turns, switched by the program
 * itself (cudamem.h); the difference of the medians is what it costs. Runs under the library:
 *
 *   stacks ROUNDS
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "interpose/cudamem.h"

#define PAIRS           500
#define ROUNDS_MAX      10000
#define EVENTS_PER_PAIR 2     /* alloc, free_requested; completions are one for many */
#define RING_EVENTS     65536 /* of the option `events`, by default */

static __typeof__(cudamem_record_memory_history) *record;

enum kind { KIND_OFF, KIND_EVENTS, KIND_STACK, KIND_NEW };

/* The first of a depth is what its stacks are compared with: the calls themselves cost, too. */
static const struct turn {
	const char *name;
	enum kind kind;
	unsigned depth;
} turns[] = {
	{"off", KIND_OFF, 1},         {"events", KIND_EVENTS, 1},    {"stack_5", KIND_STACK, 5},
	{"plain_5", KIND_EVENTS, 5},  {"stack_20", KIND_STACK, 20},  {"plain_20", KIND_EVENTS, 20},
	{"stack_50", KIND_STACK, 50}, {"plain_50", KIND_EVENTS, 50}, {"new_20", KIND_NEW, 20},
	{"new_50", KIND_NEW, 50},
};
#define TURNS (sizeof(turns) / sizeof(turns[0]))

static double times[TURNS][ROUNDS_MAX];

static void fail(const char *what)
{
	(void)fprintf(stderr, "stacks: %s\n", what);
	exit(1);
}

static void pair(void)
{
	CUdeviceptr block;

	if (cuMemAlloc_v2(&block, 1 << 20) || cuMemFree_v2(block))
		fail("no memory");
}

/* Two calls on each level: which of them it goes through is a bit of `path`, so that there are as
 * many different stacks of known addresses as are wanted. */
__attribute__((noinline)) static void descend(unsigned depth, unsigned long path)
{
	if (!depth) {
		pair();
	} else if (path & 1) {
		descend(depth - 1, path >> 1);
		__asm__ __volatile__("# odd" : : : "memory");
	} else {
		descend(depth - 1, path >> 1);
		__asm__ __volatile__("# even" : : : "memory");
	}
	__asm__ __volatile__("" : : : "memory");
}

static double time_pairs(const struct turn *turn)
{
	static unsigned long path;
	uint64_t start;
	int i;

	start = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (i = 0; i < PAIRS; i++)
		descend(turn->depth, turn->kind == KIND_NEW ? path++ : 0);
	return (double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start) / PAIRS;
}

static void set(enum kind kind)
{
	const char *enabled = kind == KIND_OFF ? NULL : "all";
	const char *context = kind == KIND_STACK || kind == KIND_NEW ? "alloc" : NULL;

	if (record(enabled, context, "all", UINT64_MAX, 0))
		fail("recording cannot be switched");
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(const char *name, int rounds)
{
	size_t i;

	for (i = 0; strcmp(turns[i].name, name) != 0;)
		i++;
	qsort(times[i], (size_t)rounds, sizeof(times[i][0]), compare);
	return times[i][rounds / 2];
}

int main(int argc, char **argv)
{
	const int rounds = argc == 2 ? atoi(argv[1]) : 0; /* NOLINT(cert-err34-c) */
	CUcontext context;
	int round;
	size_t i;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		(void)fprintf(stderr, "usage: stacks ROUNDS\n");
		return 2;
	}
	*(void **)(void *)&record = dlsym(RTLD_DEFAULT, "cudamem_record_memory_history");
	if (!record)
		fail("not under the library");
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		fail("no device");
	/* All that is done but once: a ring gets its memory on its first round, code its rules. */
	set(KIND_EVENTS);
	for (round = 0; round < RING_EVENTS / EVENTS_PER_PAIR; round++)
		pair();
	for (round = -1; round < rounds; round++) {
		for (i = 0; i < TURNS; i++) {
			set(turns[i].kind);
			if (round < 0)
				(void)time_pairs(&turns[i]);
			else
				times[i][round] = time_pairs(&turns[i]);
		}
	}
	printf("pair_ns %.2f\n", median("off", rounds));
	printf("event_ns %.2f\n",
	       (median("events", rounds) - median("off", rounds)) / EVENTS_PER_PAIR);
	printf("stack_5_ns %.1f\n", median("stack_5", rounds) - median("plain_5", rounds));
	printf("stack_20_ns %.1f\n", median("stack_20", rounds) - median("plain_20", rounds));
	printf("stack_50_ns %.1f\n", median("stack_50", rounds) - median("plain_50", rounds));
	printf("new_20_ns %.1f\n", median("new_20", rounds) - median("plain_20", rounds));
	printf("new_50_ns %.1f\n", median("new_50", rounds) - median("plain_50", rounds));
	return 0;
}
