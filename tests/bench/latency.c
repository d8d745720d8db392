/* SPDX-License-Identifier: MIT */
/*
 * Single calls, by the processor's own counter, where it is known, around each. Calls that reached
 * the driver are left out: what they take is the driver's. So are those in which the kernel gave
 * the processor to another process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "clock.h"
#include "player.h"

struct call {
	uint64_t ticks;
	bool left_out;
};

static uint64_t tick(void)
{
#if defined(__x86_64__)
	unsigned int processor;

	return __builtin_ia32_rdtscp(&processor);
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ __volatile__("isb; mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return clock_ns(CLOCK_MONOTONIC);
#endif
}

static double ns_of_tick(void)
{
	const struct timespec backoff = {0, 20000000};
	uint64_t from, to, first, last;

	from = clock_ns(CLOCK_MONOTONIC);
	first = tick();
	(void)nanosleep(&backoff, NULL);
	to = clock_ns(CLOCK_MONOTONIC);
	last = tick();
	return (double)(to - from) / (double)(last - first);
}

static bool time_one(const struct allocator *allocator, const struct op *op, void **slot,
		     struct call *call)
{
	uint64_t before = device_now(), start;

	start = tick();
	if (op->bytes)
		slot[op->slot] = allocator->alloc(op->bytes, 0);
	else
		allocator->free(slot[op->slot]);
	call->ticks = tick() - start;
	call->left_out = device_now() != before;
	return slot[op->slot] != NULL;
}

/* Whether the processor was taken from this thread since the last time. */
static bool was_preempted(void)
{
	static long before;
	const long then = before;
	struct rusage usage;

	if (getrusage(RUSAGE_THREAD, &usage))
		return false;
	before = usage.ru_nivcsw;
	return before != then;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The calls of one kind, those that met no driver call, sorted. */
static void print_kind(const struct sequence *sequence, const struct call *call, bool allocs,
		       uint64_t *ticks, double scale)
{
	static const struct {
		const char *name;
		double share;
	} points[] = {{"p50", .5}, {"p99", .99}, {"p999", .999}, {"p9999", .9999}, {"most", 1}};
	const char *kind = allocs ? "alloc" : "free";
	size_t i, n = 0, ops = sequence->ops - sequence->warm;

	for (i = 0; i < ops; i++)
		if ((sequence->op[sequence->warm + i].bytes != 0) == allocs && !call[i].left_out)
			ticks[n++] = call[i].ticks;
	printf("%s_calls %zu\n", kind, n);
	if (!n)
		return;
	qsort(ticks, n, sizeof(*ticks), compare);
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		printf("%s_%s_ns %.1f\n", kind, points[i].name,
		       (double)ticks[(size_t)((double)(n - 1) * points[i].share)] * scale);
}

/* Less than this no process waits for a processor. */
#define PREEMPTED_NS 2000

/* The timed part; each call begins at least play->period_ns after the one before. */
static bool time_calls(const struct play *play, void **slot, struct call *call, double tick_ns)
{
	const struct sequence *sequence = play->sequence;
	const uint64_t period = (uint64_t)((double)play->period_ns / tick_ns);
	const uint64_t slow = (uint64_t)(PREEMPTED_NS / tick_ns);
	uint64_t start;
	size_t i;

	(void)was_preempted();
	for (i = sequence->warm; i < sequence->ops; i++, call++) {
		start = tick();
		if (!time_one(play->allocator, &sequence->op[i], slot, call))
			return false;
		if (call->ticks > slow)
			call->left_out |= was_preempted();
		while (tick() - start < period)
			;
		if (tick() - start > period + slow)
			(void)was_preempted();
	}
	return true;
}

int play_latencies(const struct play *play)
{
	const struct sequence *sequence = play->sequence;
	size_t ops = sequence->ops - sequence->warm, i;
	void **slot = calloc(sequence->slots, sizeof(void *));
	struct call *call = calloc(ops, sizeof(*call)), unused;
	uint64_t *ticks = calloc(ops, sizeof(*ticks));
	double scale = ns_of_tick();
	bool ok = slot && call && ticks;

	for (i = 0; i < sequence->warm && ok; i++)
		ok = time_one(play->allocator, &sequence->op[i], slot, &unused);
	ok = ok && time_calls(play, slot, call, scale);
	if (ok) {
		print_kind(sequence, call, true, ticks, scale);
		print_kind(sequence, call, false, ticks, scale);
	} else {
		fprintf(stderr, "bench: the allocator refused a request\n");
	}
	free(slot);
	free(call);
	free(ticks);
	return ok ? 0 : -1;
}
