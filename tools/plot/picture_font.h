/* SPDX-License-Identifier: MIT */
/*
 * Letters as strokes, for pictures of pixels. A letter is a list of strokes separated by blanks; a
 * stroke is a list of points, each a digit for x, 0 to 4, and one for y, 0 to 8: letters stand on
 * 2, small ones reach 6, large ones 8.
 */
#ifndef CM_TOOLS_PLOT_PICTURE_FONT_H
#define CM_TOOLS_PLOT_PICTURE_FONT_H

/* The strokes of an ASCII character; a box if it has none. */
const char *cm_font_strokes(char letter);

#endif
