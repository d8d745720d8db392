/* SPDX-License-Identifier: MIT */
/*
 * Draws the model on a canvas. No terminal; the same frame for the screen and for -b.
 */
#ifndef CM_TOOLS_TOP_VIEW_H
#define CM_TOOLS_TOP_VIEW_H

#include "tools/top/canvas.h"
#include "tools/top/model.h"

#define CM_VIEW_MIN_WIDTH  40
#define CM_VIEW_MIN_HEIGHT 6

/* Draws a frame of the canvas's size. Sets the columns, the page and the first line of the model
 * to what fits. */
void cm_view_draw(struct cm_top *top, struct cm_canvas *canvas);

#define CM_VIEW_VALUE_BYTES 64
/* A value that is no text, as the table shows it. */
void cm_view_value(const struct cm_value *value, bool exact, char text[CM_VIEW_VALUE_BYTES]);

/* Parts of a frame. `y` is the first line of a part and `height` what it may have. */
void cm_view_gpus(const struct cm_top *top, struct cm_canvas *canvas, int y, int height);
/* Lines that cm_view_gpus wants of a screen of this height. */
int cm_view_gpus_height(const struct cm_top *top, int height);
void cm_view_table(struct cm_top *top, struct cm_canvas *canvas, int y, int height);
void cm_view_detail(struct cm_top *top, struct cm_canvas *canvas, int y, int height);
void cm_view_menu(struct cm_top *top, struct cm_canvas *canvas, int y, int height);
void cm_view_help(struct cm_top *top, struct cm_canvas *canvas, int y, int height);

#endif
