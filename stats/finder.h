/* SPDX-License-Identifier: MIT */
/*
 * Finds regions: by name in the region folder of each mount namespace that has a process, and those
 * without a name among the open files of processes. Prints nothing. Thread-safe.
 */
#ifndef CM_STATS_FINDER_H
#define CM_STATS_FINDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "stats/region_name.h"

struct cm_find {
	/* For cm_reader_open. "": the process has a region, and more open files than were looked
	 * at. */
	char path[320];
	pid_t pid;      /* as seen from here if `held`, else by the file's name */
	uid_t uid;      /* owner of the file */
	uint64_t start; /* of the process, by the file's name; 0 if its open file was found */
	bool held;      /* the region of the running process `pid`, of a user that it runs as */
};

typedef void (*cm_find_fn)(void *data, const struct cm_find *find);

/*
 * Calls `fn` once for each region. `dir` NULL: those of CM_REGION_DIR, here and in each mount
 * namespace that has a process which the caller may look at, and those that only an open file leads
 * to; else the files of `dir` alone. `pid` not 0: only regions of this process. A file under the
 * number of a running process is left out, where `pid` asks for it, if its owner is no user of that
 * process. Reads at most 65536 entries of a folder, and of the open files of a process 1024, or
 * 2^20 of the one asked for. Returns how many were found. Does not check the content:
 * cm_reader_open does.
 */
int cm_find_regions(const char *dir, pid_t pid, cm_find_fn fn, void *data);

#endif
