/* SPDX-License-Identifier: MIT */
/*
 * Counts of calls for drivers and runtimes that answer at once: each thread has a place of its own,
 * so that counting costs no thread another's cache line. Where there are more threads than places
 * some share one and lose a count now and then.
 */
#ifndef CM_BENCH_INSTANT_COUNT_H
#define CM_BENCH_INSTANT_COUNT_H

#include <stdatomic.h>
#include <stdint.h>

#define INSTANT_PLACES 64

struct instant_count {
	_Alignas(64) _Atomic uint64_t calls;
};

struct instant_counts {
	_Atomic uint32_t threads;
	struct instant_count place[INSTANT_PLACES];
};

static __attribute__((noinline, unused)) struct instant_count *instant_count_place(
	struct instant_counts *counts)
{
	return &counts->place[atomic_fetch_add(&counts->threads, 1) % INSTANT_PLACES];
}

/* One more; `*mine` is the calling thread's, NULL at its first call. */
static inline void instant_count_add(struct instant_counts *counts, struct instant_count **mine)
{
	if (__builtin_expect(!*mine, 0))
		*mine = instant_count_place(counts);
	/* No locked instruction: nobody else writes there. */
	atomic_store_explicit(&(*mine)->calls,
			      atomic_load_explicit(&(*mine)->calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

static inline uint64_t instant_count_sum(struct instant_counts *counts)
{
	uint64_t sum = 0;
	uint32_t i;

	for (i = 0; i < INSTANT_PLACES; i++)
		sum += atomic_load_explicit(&counts->place[i].calls, memory_order_relaxed);
	return sum;
}

#endif
