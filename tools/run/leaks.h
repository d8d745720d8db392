/* SPDX-License-Identifier: MIT */
/*
 * The memory that a process still holds at exit, by stack; growing stacks come first. Stacks that
 * look the same in the report are one.
 *
 * Suppressions have the form of LeakSanitizer's: a line "leak:PATTERN" ignores the stacks with a
 * function, a file or an object whose name contains PATTERN, where * matches anything; # begins a
 * comment. NVIDIA's libraries, which keep their workspaces on purpose, are built in.
 */
#ifndef CM_TOOLS_RUN_LEAKS_H
#define CM_TOOLS_RUN_LEAKS_H

#include <stdio.h>

#include "tools/processes/source.h"
#include "tools/snapshot/lines.h"

struct cm_suppressions;

/* Reads the suppressions of a file (NULL: none) and adds the built-in ones. 0, or an exit code
 * after a complaint. */
int cm_suppressions_read(const char *path, struct cm_suppressions **ret_suppressions);
void cm_suppressions_free(struct cm_suppressions *suppressions);

/* Prints the report. *ret_leaks: the number of stacks in it. 0, -ENOMEM. */
int cm_leaks_print(const struct cm_source *source, const struct cm_suppressions *suppressions,
		   const struct cm_view *view, FILE *out, size_t *ret_leaks);

#endif
