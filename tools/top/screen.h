/* SPDX-License-Identifier: MIT */
/*
 * The screen of `top`: ncurses alone. Cells go to the terminal, keys and clicks to the model.
 */
#ifndef CM_TOOLS_TOP_SCREEN_H
#define CM_TOOLS_TOP_SCREEN_H

#include "tools/cli/options.h"
#include "tools/top/model.h"

/*
 * Shows the model until the user quits, the terminal closes or a signal asks for the end, and then
 * restores the terminal. 0, or an exit code after a complaint.
 */
int cm_top_screen(const struct cm_options *options, struct cm_top *top,
		  struct cm_watch_source *source);

#endif
