/* SPDX-License-Identifier: MIT */
/*
 * The regions among the open files of a process: a memfd, or a file whose name was taken away, as
 * systemd-logind does when the user logs out (RemoveIPC). Prints nothing. Thread-safe. A file that
 * another user's process has open is opened, but never waited for.
 */
#ifndef CM_STATS_OPEN_FILES_H
#define CM_STATS_OPEN_FILES_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

/* `path` leads to the open file: /proc/PID/fd/NUMBER. */
typedef void (*cm_open_file_fn)(void *data, pid_t pid, const char *path, const struct stat *st);

/*
 * Calls `fn` for each open file that is the process's own region; not for one that belongs to a
 * parent or to another process. Looks at `most` open files. False: there are more, and none of
 * these is its region.
 */
bool cm_open_files_find(pid_t pid, unsigned most, cm_open_file_fn fn, void *data);

/* Whether a region is mapped in the process. Reads at most 65536 lines of /proc/PID/maps, the
 * default limit of mappings. */
bool cm_open_files_is_mapped(pid_t pid);

#endif
