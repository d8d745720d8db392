/* SPDX-License-Identifier: MIT */
/*
 * Where the regions are: files in the region folder, and the open files of processes (a memfd, a
 * container with a /dev/shm of its own). Prints nothing; thread-safe.
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
 * Calls `fn` once for each region: first those that processes hold open, then the files of `dir`
 * that were not among them. `pid` other than 0 looks for this process alone. `dir` NULL is the
 * usual folder; another folder is looked at alone, and no process. At most 65536 files are looked
 * at. Returns how many were found. The content is not looked at: cm_reader_open judges it.
 */
int cm_find_regions(const char *dir, pid_t pid, cm_find_fn fn, void *data);

/*
 * The last id of a process's "NSpid:" in /proc/PID/status: its own idea of its pid, where that
 * differs from `pid` because of a namespace. `pid` where it can't be told.
 */
pid_t cm_process_inner_pid(pid_t pid);

#endif
