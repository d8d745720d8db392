/* SPDX-License-Identifier: MIT */
/*
 * The clock of the simulated machine, nanoseconds from the first call. In virtual time it moves
 * only when a call's latency passes or a thread waits; all threads share it. In real time it is
 * CLOCK_MONOTONIC, and latencies are spent. Caller locks.
 */
#ifndef CM_SIM_CLOCK_H
#define CM_SIM_CLOCK_H

#include <stdint.h>

/* Starts at zero. */
void sim_clock_start(void);

uint64_t sim_clock_now(void);

/* Virtual time only: moves the clock forward to `ns`, never back. */
void sim_clock_set(uint64_t ns);

/* Passes the time of a call: spins in real time, for sleeping is too coarse for microseconds. */
void sim_clock_spend(uint64_t ns);

#endif
