/* SPDX-License-Identifier: MIT */
/*
 * The lock on a region's file, which tells a live region from a leftover: the kernel drops it with
 * the process, in every PID namespace. Before a name is removed, its file is locked and compared
 * with the name. After a file is created, it is locked and then compared with its name. So the name
 * of a live process is never removed, in whichever order both happen. Keeps nothing: thread-safe.
 */
#ifndef CM_STATS_REGION_LOCK_H
#define CM_STATS_REGION_LOCK_H

#include <stdbool.h>

/*
 * Locks the file until all copies of its descriptor are closed. Does not block. -EAGAIN: another
 * process has the lock. 0 also on a file system without locks; there only the pid tells whether the
 * process lives.
 */
int cm_region_lock(int fd);

/* Whether `name` in the open folder `dir` (or AT_FDCWD) still is the file behind fd. */
bool cm_region_is_named(int dir, const char *name, int fd);

/*
 * Removes the file `name` in the open folder `dir` (or AT_FDCWD), or the link of that name.
 * -EAGAIN: a process holds its lock. -ESTALE: the name now belongs to another file. Else 0 or the
 * negative errno of open or unlink.
 */
int cm_region_remove_leftover(int dir, const char *name);

#endif
