/* SPDX-License-Identifier: MIT */
/*
 * Opens what others name for reading, if it is a regular file. Opening a device or a pipe would
 * already be an action, and may wait; what a path leads to is asked without one (O_PATH).
 * Thread-safe. Does not block by itself; a file system that belongs to a user may.
 */
#ifndef CM_STATS_REGULAR_FILE_H
#define CM_STATS_REGULAR_FILE_H

/*
 * `at` and `path` as for openat(2); `flags`: 0, or O_NOFOLLOW to refuse a symbolic link (-ELOOP).
 * Returns a descriptor that the caller closes; -EBADMSG: not a regular file; else the negative
 * errno of open(2).
 */
int cm_regular_file_open(int at, const char *path, int flags);

#endif
