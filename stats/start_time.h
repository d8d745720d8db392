/* SPDX-License-Identifier: MIT */
/*
 * What /proc/PID/stat says of a process, above all when it started, which tells it from others that
 * have had its number. Keeps nothing: thread-safe.
 */
#ifndef CM_STATS_START_TIME_H
#define CM_STATS_START_TIME_H

#include <stdbool.h>
#include <stdint.h>

struct cm_process_stat {
	char state; /* of the main thread: 'Z' once it has ended */
	unsigned long threads;
	bool is_dead;   /* it has ended and waits for its parent */
	uint64_t start; /* in clock ticks since boot */
};

/* -ESRCH: no such process. Else the negative errno of the read. */
int cm_process_read_stat(uint32_t pid, struct cm_process_stat *ret_stat);

/* The same of the calling process. Not looked up by pid, since /proc may be that of another PID
 * namespace, where another process has that pid. */
int cm_process_read_own_stat(struct cm_process_stat *ret_stat);

/* When the process started. -ESRCH also for one that has ended and waits for its parent. */
int cm_process_start_time(uint32_t pid, uint64_t *ret_start);

#endif
