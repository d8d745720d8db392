/* SPDX-License-Identifier: MIT */
/*
 * The device that is measured on: the simulated one, whose counters say what reached the driver, or
 * a real one, where nothing does. One thread, but for device_calls.
 */
#ifndef CM_BENCH_DEVICE_H
#define CM_BENCH_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Calls of the program or the library that reached the driver, or 0 where nobody counts. */
struct device_calls {
	uint64_t all;     /* but for those below */
	uint64_t current; /* cuCtxGetCurrent: reads a variable of the calling thread */
	uint64_t ns;      /* simulated time that has passed: what the plan says of the calls */
};

/*
 * Starts the driver, with the primary context of device 0 current on the calling thread; does
 * nothing when it has been done. The simulated driver follows the plan in CUDASIM, or one with
 * memory for every workload. 0, or -1 after a message.
 */
int device_open(void);
/* From now on every thread that attaches has a device of its own; before device_open. */
void device_share_out(void);
/* Makes that context current on another thread, or that of the device of this number. Where there
 * is no such device, nothing is: the thread's requests are refused. */
void device_attach(unsigned number);

bool device_is_simulated(void);
struct device_calls device_count(void);
/*
 * For CUDASIM: every call takes a tick of simulated time. Then device_now, which is cheaper than
 * device_count, shows by a change that the driver was called.
 */
#define DEVICE_TICKS "memory:500G,guard:off,latency:1"
uint64_t device_now(void);

/* Makes device_work ready. 0, or -1 after a message: only the simulated device does it. */
int device_work_open(void);
/*
 * Submits a kernel, and lets as much time pass as a program takes until the next one: somewhat more
 * than the kernel runs, so that the device is busy but does not fall behind. Not counted as calls.
 */
void device_work(void);
/* Pages that the driver was asked to map so far. */
uint64_t device_mappings(void);
/* Bytes of the card in use at most so far. */
uint64_t device_peak_bytes(void);

#endif
