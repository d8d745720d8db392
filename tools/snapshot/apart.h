/* SPDX-License-Identifier: MIT */
/*
 * Work on files that somebody else names, in a process of its own: with the rights of the user who
 * names them if the tool is root, and for no longer than it makes progress.
 */
#ifndef CM_TOOLS_SNAPSHOT_APART_H
#define CM_TOOLS_SNAPSHOT_APART_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

struct cm_apart {
	pid_t child;
	int from; /* end of the pipe that the child writes to */
	int silence_ms;
};

/*
 * Starts `work` in a child, as `owner` if the tool is root; what it writes to `to` is for
 * cm_apart_read(). It must not return before it has written all. Without the right to become
 * `owner` the child writes nothing. A negative errno.
 */
int cm_apart_start(uid_t owner, int silence_ms, void (*work)(void *data, FILE *to), void *data,
		   struct cm_apart *ret_apart);

/* Waits for so many bytes. False: the child has ended, or was silent for `silence_ms`. */
bool cm_apart_read(struct cm_apart *apart, void *bytes, size_t count);

/* Ends the child, whatever it does. */
void cm_apart_end(struct cm_apart *apart);

#endif
