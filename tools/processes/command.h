/* SPDX-License-Identifier: MIT */
/*
 * Having a process do something: the letter, and what to tell the user where it was not done.
 */
#ifndef CM_TOOLS_PROCESSES_COMMAND_H
#define CM_TOOLS_PROCESSES_COMMAND_H

#include "stats/command_client.h"
#include "tools/cli/options.h"
#include "tools/processes/collect.h"

/*
 * Sends the letter and waits for its answer, for --timeout at most. 0 with the results filled in,
 * or an exit code after a complaint.
 */
int cm_command_send(const struct cm_options *options, struct cm_process *process,
		    struct cm_command *command);

#endif
