/* SPDX-License-Identifier: MIT */
/*
 * The timeline of a device as lines of text: a letter for each of the largest stacks, '.' for all
 * others, stacked as in the picture.
 */
#ifndef CM_TOOLS_PLOT_TERMINAL_H
#define CM_TOOLS_PLOT_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

#include "tools/snapshot/history.h"

/* `width` columns, `rows` stacks with a letter. Nothing is printed without events. -ENOMEM. */
int cm_terminal_draw(const struct cm_history *history, size_t width, size_t rows, bool ascii,
		     FILE *file);

#endif
