/* SPDX-License-Identifier: MIT */
/*
 * Finds regions: files in the region folder, and open files of processes (a memfd, or a container
 * with its own /dev/shm). Prints nothing. Thread-safe.
 */
#ifndef CM_STATS_FINDER_H
#define CM_STATS_FINDER_H

#include <stdint.h>
#include <sys/types.h>

struct cm_find {
	char path[320]; /* for cm_reader_open */
	pid_t pid; /* as seen from here: of the process that has it open, or by the file's name */
	uid_t uid; /* owner of the file */
	uint64_t start; /* of the process, by the file's name; 0 where its open file was found */
};

typedef void (*cm_find_fn)(void *data, const struct cm_find *find);

/*
 * Calls `fn` once for each region. `dir` NULL: first the regions that processes hold open, then the
 * other files of CM_REGION_DIR; else the files of `dir` alone. `pid` not 0: only regions of this
 * process. A file under the number of a running
 * process is left out, where `pid` asks for it, if its owner is no user of that
 * process. Reads at most 65536 directory entries. Returns how many were found. Does not check the
 * content: cm_reader_open does.
 */
int cm_find_regions(const char *dir, pid_t pid, cm_find_fn fn, void *data);

/*
 * The pid of a process in its own PID namespace: the last number of "NSpid:" in /proc/PID/status.
 * `pid` itself if that cannot be read.
 */
pid_t cm_process_inner_pid(pid_t pid);

#endif
