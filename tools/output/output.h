/* SPDX-License-Identifier: MIT */
/*
 * Output files that appear complete or not at all. The file is written without a name, or under a
 * temporary one, and gets its name once all data is on the disk. A full disk, a signal or a crash
 * leaves the path as it was before. Others who may write to the folder gain nothing: links are
 * not followed, pipes not opened, and only a regular file of the caller's own is replaced.
 */
#ifndef CM_TOOLS_OUTPUT_OUTPUT_H
#define CM_TOOLS_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

struct cm_output {
	FILE *file; /* to write to; cm_output_close() reports errors */
	char *path; /* NULL: standard output, another open descriptor or a device */
	int folder; /* of the path; -1: none */
	bool force;
	char temporary[48]; /* name of the unfinished file in the folder; empty: it has none */
};

/*
 * Opens the output. "-" is standard output; /dev/stdout, /dev/fd/N and the like mean the open
 * descriptor. An existing file is replaced only with `force`. `mode`: permissions, reduced by the
 * umask. 0, or an exit code after a complaint.
 */
#define CM_OUTPUT_PRIVATE 0600 /* the output shows what the region shows, to the same user */
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
