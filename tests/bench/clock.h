/* SPDX-License-Identifier: MIT */
/*
 * The clocks by which the benchmarks measure.
 */
#ifndef CM_TESTS_BENCH_CLOCK_H
#define CM_TESTS_BENCH_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, or CLOCK_THREAD_CPUTIME_ID for the calling thread's own time, in nanoseconds. */
static inline uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	(void)clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
