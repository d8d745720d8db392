/* SPDX-License-Identifier: MIT */
/*
 * A made-up busy machine: one process for each role, with regions that tools find like any others.
 */
#ifndef CM_TOOLS_DEMO_MACHINE_H
#define CM_TOOLS_DEMO_MACHINE_H

#include <sys/types.h>

#include "tools/cli/options.h"

struct cm_demo_machine;

/*
 * Starts the processes; their regions go to --dir. SIGINT, SIGTERM, SIGHUP and SIGCHLD are blocked
 * from then on. 0, or an exit code after a complaint.
 */
int cm_demo_machine_start(const struct cm_options *options, struct cm_demo_machine **ret_machine);
size_t cm_demo_machine_running(const struct cm_demo_machine *machine);
/* Blocks until a signal asks for the end, or all processes have ended. */
void cm_demo_machine_wait(struct cm_demo_machine *machine);
/* Ends the processes, removes what a crash left, and frees. NULL is fine. */
void cm_demo_machine_stop(struct cm_demo_machine *machine);

#endif
