/* SPDX-License-Identifier: MIT */
/*
 * What a process still holds at its end, by stack: those that grew first.
 *
 * Suppressions are as LeakSanitizer's: a line "leak:PATTERN" leaves out the stacks with a function,
 * a file or an object that contains PATTERN, in which * stands for anything; # begins a comment.
 * Those of NVIDIA's libraries, which keep their workspaces on purpose, are built in.
 */
#ifndef CM_TOOLS_RUN_LEAKS_H
#define CM_TOOLS_RUN_LEAKS_H

#include <stdio.h>

#include "tools/processes/source.h"

struct cm_suppressions;

/* The built-in ones and those of a file (NULL: none). 0, or an exit code after a complaint. */
int cm_suppressions_read(const char *path, struct cm_suppressions **ret_suppressions);
void cm_suppressions_free(struct cm_suppressions *suppressions);

/* Prints the report, if there is anything to report. *ret_leaks: stacks in it. 0, -ENOMEM. */
int cm_leaks_print(const struct cm_source *source, const struct cm_suppressions *suppressions,
		   FILE *out, size_t *ret_leaks);

#endif
