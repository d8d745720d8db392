/* SPDX-License-Identifier: MIT */
/*
 * `run` with --report, --top, --leaks, --oom or --save-peak: starts the program as a child, keeps
 * the regions of the program and its children in a directory of their own, and reads them 50 times
 * a second while the program runs, and at its end.
 *
 * A request that runs out of memory waits until its snapshot was taken (oom_wait_ms), so the
 * snapshot shows the state in which it failed. A peak may be shorter than the interval: then the
 * copy is taken right after it, and its events reach back to the peak.
 */
#ifndef CM_TOOLS_RUN_GUARD_H
#define CM_TOOLS_RUN_GUARD_H

#include <stdbool.h>

#include "tools/cli/options.h"

struct cm_guard;

/*
 * Creates the directory, except for a dry run, and reads the suppressions. 0, or an exit code after
 * a complaint. *ret_conf: options to append to the program's CUDAMEM_CONF; owned by the guard.
 */
int cm_guard_create(const struct cm_options *options, struct cm_guard **ret_guard,
		    const char **ret_conf);
void cm_guard_destroy(struct cm_guard *guard);

/*
 * `covered`: the library can be loaded into the program; if not, that was said already.
 *
 * Runs start(data) in a child; it returns only on failure, with an exit code. Waits for the child,
 * forwards signals, and reports. Returns the exit code of `run`.
 */
int cm_guard_run(struct cm_guard *guard, bool covered, int (*start)(void *data), void *data);

#endif
