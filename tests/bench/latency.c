/* SPDX-License-Identifier: MIT */
/*
 * Single calls, by the processor's own counter, where it is known, around each. Calls that reached
 * the driver are left out: what they take is the driver's.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "player.h"

struct call {
	uint64_t ticks;
	bool driver; /* was called meanwhile */
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
	call->driver = device_now() != before;
	return slot[op->slot] != NULL;
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
	} points[] = {{"p50", .5}, {"p99", .99}, {"p999", .999}};
	const char *kind = allocs ? "alloc" : "free";
	size_t i, n = 0, ops = sequence->ops - sequence->warm;

	for (i = 0; i < ops; i++)
		if ((sequence->op[sequence->warm + i].bytes != 0) == allocs && !call[i].driver)
			ticks[n++] = call[i].ticks;
	printf("%s_calls %zu\n", kind, n);
	if (!n)
		return;
	qsort(ticks, n, sizeof(*ticks), compare);
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		printf("%s_%s_ns %.1f\n", kind, points[i].name,
		       (double)ticks[(size_t)((double)n * points[i].share)] * scale);
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

	for (i = 0; i < sequence->ops && ok; i++)
		ok = time_one(play->allocator, &sequence->op[i], slot,
			      i < sequence->warm ? &unused : &call[i - sequence->warm]);
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
