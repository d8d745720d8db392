/* SPDX-License-Identifier: MIT */
/*
 * The name of a region's file, and the facts of /proc that tell whose it is. Prints nothing, blocks
 * no longer than a read of /proc. Thread-safe.
 */
#ifndef CM_STATS_REGION_NAME_H
#define CM_STATS_REGION_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* As the process knew itself: in its own user and PID namespace. */
struct cm_region_name {
	uint64_t uid, pid;
	uint64_t start; /* in clock ticks since boot */
};

/* False: no region has this name. `text` is a name without its folder. */
bool cm_region_name_parse(const char *text, struct cm_region_name *ret_name);

/*
 * The pid of a process in its own PID namespace: the last number of "NSpid:" in /proc/PID/status.
 * `pid` itself if that cannot be read.
 */
pid_t cm_process_inner_pid(pid_t pid);

/* Is the user one that the process runs as? It has a real, an effective and two other ids. */
bool cm_process_runs_as(pid_t pid, uid_t uid);

#endif
