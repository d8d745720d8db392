/* SPDX-License-Identifier: MIT */
/*
 * Output files that appear complete or not at all. The file is written without a name, or under a
 * temporary one, and gets its name once all data is on the disk. A full disk, a signal or a crash
 * leaves the path as it was before.
 */
#ifndef CM_TOOLS_OUTPUT_OUTPUT_H
#define CM_TOOLS_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct cm_output {
	FILE *file;      /* to write to; cm_output_close() reports errors */
	char *path;      /* NULL: standard output, a pipe or a device */
	char *temporary; /* name of the unfinished file; NULL: it has none */
	bool force;
};

/*
 * Opens the output. "-" is standard output. An existing file is replaced only with `force`. `mode`:
 * permissions, reduced by the umask. 0, or an exit code after a complaint.
 */
int cm_output_open(struct cm_output *output, const char *path, unsigned mode, bool force);

/* Is `path`, or will it be, a regular file? Not a pipe, a device or "-". */
bool cm_output_is_file(const char *path);
/* Would output to `path`, NULL or "-" for standard output, appear on a terminal? */
bool cm_output_is_terminal(const char *path);

/* Closes the output. The file gets its name; if `keep` is false it is discarded. 0, or an exit code
 * after a complaint. */
int cm_output_close(struct cm_output *output, bool keep);

/* Flushes a stream. 0, or the errno of any write to it that has failed so far. */
int cm_output_flush(FILE *file);

#endif
