/* SPDX-License-Identifier: MIT */
/*
 * Clocks. The counter that stamps rows and events: cheap, even, and the same for all processes of a
 * machine, so that a tool can find out how fast it runs if the header does not say.
 */
#ifndef CM_STATS_TICK_H
#define CM_STATS_TICK_H

#include <stdint.h>
#include <time.h>

#define CM_NS_PER_S UINT64_C(1000000000)

/* CLOCK_MONOTONIC in nanoseconds. */
static inline uint64_t cm_monotonic_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * CM_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The processor's own counter, if it has one that runs evenly: 10 ns, while clock_gettime takes
 * 22. */
static inline uint64_t cm_tick(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;

	__asm__ __volatile__("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return cm_monotonic_ns();
#endif
}

#endif
