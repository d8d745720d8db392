/* SPDX-License-Identifier: MIT */
/*
 * run with an eye on the program: it is started as a child, its regions (and those of its children)
 * lie in a folder of its own and stay when they end, and are looked at 50 times a second while it
 * runs.
 *
 * What that means: a request that fails for want of memory waits until the look that sees it is
 * over (oom_wait_ms), so the copy is of what it failed in. A peak that lasts for less than a look
 * is not met itself, but a copy is made right after it, whose events reach back to it.
 */
#ifndef CM_TOOLS_RUN_GUARD_H
#define CM_TOOLS_RUN_GUARD_H

#include "tools/cli/options.h"

struct cm_guard;

/*
 * Makes the folder, but for a dry run, and reads the suppressions. 0, or an exit code after a
 * complaint. *ret_conf: what the program's CUDAMEM_CONF is to have behind all else; lives as long
 * as the guard.
 */
int cm_guard_create(const struct cm_options *options, struct cm_guard **ret_guard,
		    const char **ret_conf);
void cm_guard_destroy(struct cm_guard *guard);

/*
 * Runs start(data) in a child, which does not return but on failure, with an exit code. Waits for
 * the child, passes signals on, and reports. Returns the exit code of run.
 */
int cm_guard_run(struct cm_guard *guard, int (*start)(void *data), void *data);

#endif
