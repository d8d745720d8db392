/* SPDX-License-Identifier: MIT */
/*
 * When a process started, which tells it from others that have had its number. Reads /proc, and
 * keeps nothing: thread-safe.
 */
#ifndef CM_STATS_START_TIME_H
#define CM_STATS_START_TIME_H

#include <stdint.h>

/*
 * In clock ticks since boot, field 22 of /proc/PID/stat. -ESRCH: no such process, or a zombie. Else
 * the negative errno of the read.
 */
int cm_process_start_time(uint32_t pid, uint64_t *ret_start);

/* The same of the calling process. Not looked up by pid, since /proc may be that of another PID
 * namespace, where another process has that pid. */
int cm_process_own_start_time(uint64_t *ret_start);

#endif
