/* SPDX-License-Identifier: MIT */
/*
 * The commands that run beside the screen: actions, and the text of the details.
 */
#ifndef CM_TOOLS_TOP_COMMANDS_H
#define CM_TOOLS_TOP_COMMANDS_H

#include "tools/cli/options.h"
#include "tools/top/child.h"
#include "tools/top/model.h"

/* A struct that is all zero but for `options` runs nothing. */
struct cm_commands {
	const struct cm_options *options; /* --dir, --region, --ascii */
	struct cm_child child;            /* one at a time */
	enum { CM_COMMANDS_IDLE, CM_COMMANDS_ACT, CM_COMMANDS_SHOW, CM_COMMANDS_REPORT } running;
	bool report_due;   /* after `show` */
	pid_t pid;         /* whose details are there */
	uint64_t shown_ns; /* CLOCK_MONOTONIC of the last `show` */
	char *shown, *reported;
};

/* Does what the model's request says, which is confirmed; the answer becomes its message. */
void cm_commands_act(struct cm_commands *commands, struct cm_top *top);
/* Fetches the text of the details, if they are open and it is missing or two seconds old. */
void cm_commands_fetch(struct cm_commands *commands, struct cm_top *top);
/* Reads what the command has printed; call it when the descriptor is readable. */
void cm_commands_read(struct cm_commands *commands, struct cm_top *top);
/* For poll(2); -1: nothing runs. */
int cm_commands_fd(const struct cm_commands *commands);
void cm_commands_stop(struct cm_commands *commands);

#endif
