/* SPDX-License-Identifier: MIT */
/*
 * A file that is there as a whole or not at all: written without a name, or under another one, and
 * given its name when everything has arrived on the disk. A full disk, a signal or a crash leaves
 * nothing behind under the name that was asked for, and what stood there before stands.
 */
#ifndef CM_TOOLS_OUTPUT_OUTPUT_H
#define CM_TOOLS_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct cm_output {
	FILE *file;      /* to write to; errors are found at the end */
	char *path;      /* NULL: standard output, or something that is no regular file */
	char *temporary; /* NULL: has no name as yet */
	bool force;
};

/*
 * Begins to write. "-" is standard output. What stands at `path` is replaced only with `force`.
 * `mode`: the permissions, from which the umask takes away. 0, or an exit code after a complaint.
 */
int cm_output_open(struct cm_output *output, const char *path, unsigned mode, bool force);

/* Whether `path` is, or will be, a regular file: no pipe, no device, not "-". */
bool cm_output_is_file(const char *path);
/* Whether what goes to `path`, or with NULL to standard output, would be shown on a terminal. */
bool cm_output_is_terminal(const char *path);

/* Ends it: the file gets its name, or with `keep` false is dropped. 0, or an exit code after a
 * complaint. */
int cm_output_close(struct cm_output *output, bool keep);

/* Writes what is left in a stream. 0, or the errno for which something of all that was written to
 * it has not arrived. */
int cm_output_flush(FILE *file);

#endif
