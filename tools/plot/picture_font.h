/* SPDX-License-Identifier: MIT */
/*
 * A stroke font, for pictures of pixels. A glyph is a list of strokes separated by blanks; a stroke
 * is a list of points, each a digit for x, 0 to 4, and one for y, 0 to 8: the baseline is 2, lower
 * case reaches 6, upper case 8.
 */
#ifndef CM_TOOLS_PLOT_PICTURE_FONT_H
#define CM_TOOLS_PLOT_PICTURE_FONT_H

/* The strokes of an ASCII character; a box if it has none. */
const char *cm_font_strokes(char character);

#endif
