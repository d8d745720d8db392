/* SPDX-License-Identifier: MIT */
/*
 * Frames as text, for -b: what the screen would show, line by line.
 */
#ifndef CM_TOOLS_TOP_BATCH_H
#define CM_TOOLS_TOP_BATCH_H

#include <stdio.h>

#include "tools/top/canvas.h"
#include "tools/top/model.h"

/* Writes a canvas as lines without blanks at their ends; `color`: with escape sequences. */
void cm_canvas_write(const struct cm_canvas *canvas, FILE *file, bool color);

/*
 * Prints `frames` frames (0: until the output ends), one an interval, the first at once. 0, or an
 * exit code after a complaint.
 */
int cm_top_batch(struct cm_top *top, struct cm_watch_source *source, int height, int width,
		 uint64_t frames, bool color);

#endif
