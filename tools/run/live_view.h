/* SPDX-License-Identifier: MIT */
/*
 * `run --top`: shows `cudamemstat top` of a program's regions on the terminal while the program
 * runs in the background, with its output in a file. Single-threaded.
 */
#ifndef CM_TOOLS_RUN_LIVE_VIEW_H
#define CM_TOOLS_RUN_LIVE_VIEW_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/cli/options.h"

struct cm_live_view {
	int log;    /* the program's output; -1: no view is wanted */
	pid_t pid;  /* of top; 0: it does not run */
	bool ended; /* by the user, or it did not start; the program runs */
};

/* Opens the file of --log. Without --top it does nothing. 0, or an exit code after a complaint: no
 * terminal, no file named, or it cannot be written. */
int cm_live_view_open(const struct cm_options *options, struct cm_live_view *ret_view);
/* In the program, before exec: leaves the terminal to the view. */
void cm_live_view_leave_terminal(const struct cm_live_view *view);
/* Starts the view of the regions in a folder. */
void cm_live_view_start(struct cm_live_view *view, const char *folder);
/* Notices whether the user has ended it, and says then that the program goes on. */
void cm_live_view_poll(struct cm_live_view *view, const struct cm_options *options);
/* Ends it, and waits until it has restored the terminal. */
void cm_live_view_stop(struct cm_live_view *view);
void cm_live_view_close(struct cm_live_view *view);

#endif
