/* SPDX-License-Identifier: MIT */
/*
 * Commands to a running process: sends one through the command channel of its region, and explains
 * failures to the user.
 */
#ifndef CM_TOOLS_PROCESSES_COMMAND_H
#define CM_TOOLS_PROCESSES_COMMAND_H

#include "stats/command_client.h"
#include "tools/cli/options.h"
#include "tools/processes/collect.h"

/*
 * Sends the command and waits for the answer, at most --timeout; a stopped process is not asked. 0
 * with the results filled in, or an exit code after a complaint.
 */
int cm_command_send(const struct cm_options *options, struct cm_process *process,
		    struct cm_command *command);

#endif
