/* SPDX-License-Identifier: MIT */
/*
 * The processes that a command works on, one after the other: those that its arguments name.
 */
#ifndef CM_TOOLS_PROCESSES_TARGETS_H
#define CM_TOOLS_PROCESSES_TARGETS_H

#include "tools/processes/collect.h"

/*
 * Before a command that changes processes: a pattern among the arguments must match one process, or
 * --all be given. 0, or CM_EXIT_USAGE after a complaint.
 */
int cm_check_targets(const struct cm_options *options);

/* What is done with one process, the region of which can be read. Returns an exit code. */
typedef int (*cm_work_fn)(const struct cm_options *options, struct cm_process *process, void *data);

/*
 * Calls `work` for each process that the arguments or --region name, and joins the exit codes.
 * Complains about processes that cannot be read.
 */
int cm_for_processes(const struct cm_options *options, cm_work_fn work, void *data);
/* The same for what changes processes: a word means only running ones, if there are any. */
int cm_change_processes(const struct cm_options *options, cm_work_fn work, void *data);

#endif
