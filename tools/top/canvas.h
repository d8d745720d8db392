/* SPDX-License-Identifier: MIT */
/*
 * A picture made of cells: what a terminal is to show, and where the mouse does what. Knows no
 * terminal.
 */
#ifndef CM_TOOLS_TOP_CANVAS_H
#define CM_TOOLS_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define CM_CANVAS_SIDE_MAX 1000 /* cells; a larger terminal is drawn on so far */

/* What a colour is for. On a terminal with eight colours each has one of its own. */
enum cm_color {
	CM_COLOR_PLAIN,
	CM_COLOR_ALLOCATED,
	CM_COLOR_PENDING,
	CM_COLOR_FRAGMENTED,
	CM_COLOR_RELEASABLE,
	CM_COLOR_OTHERS,
	CM_COLOR_ALARM,
	CM_COLOR_COUNT
};

#define CM_ATTR_BOLD    1u
#define CM_ATTR_DIM     2u
#define CM_ATTR_REVERSE 4u

struct cm_cell {
	wchar_t ch; /* 0: the right half of a wide character */
	uint8_t color;
	uint8_t attr;
};

/* What a click there means. */
enum cm_zone_kind { CM_ZONE_HEADING, CM_ZONE_LINE, CM_ZONE_KEY, CM_ZONE_GPU };

struct cm_zone {
	enum cm_zone_kind kind;
	int y, x, width;
	size_t value; /* column, line of the table, key, or GPU */
};

#define CM_ZONES_MAX 1200

struct cm_canvas {
	int height, width;
	bool ascii;
	struct cm_cell *cell; /* height * width */
	struct cm_zone zone[CM_ZONES_MAX];
	size_t zones;
};

/* A struct that is all zero is a canvas of no size. -ENOMEM. Clears it. */
int cm_canvas_resize(struct cm_canvas *canvas, int height, int width);
void cm_canvas_clear(struct cm_canvas *canvas);
void cm_canvas_fini(struct cm_canvas *canvas);

/* How a text is drawn. */
struct cm_pen {
	uint8_t color;
	uint8_t attr;
};

/* Draws one character, if its place is on the canvas. */
void cm_canvas_set(struct cm_canvas *canvas, int y, int x, struct cm_pen pen, wchar_t ch);
/*
 * Draws UTF-8 text from x on, in at most `width` cells; what the terminal could not show is '?'.
 * Returns the cell behind it.
 */
int cm_canvas_text(struct cm_canvas *canvas, int y, int x, int width, struct cm_pen pen,
		   const char *text);
__attribute__((format(printf, 6, 7))) int cm_canvas_print(struct cm_canvas *canvas, int y, int x,
							  int width, struct cm_pen pen,
							  const char *format, ...);
/* Fills cells with a character. */
void cm_canvas_fill(struct cm_canvas *canvas, int y, int x, int width, struct cm_pen pen,
		    wchar_t ch);
void cm_canvas_zone(struct cm_canvas *canvas, enum cm_zone_kind kind, int y, int x, int width,
		    size_t value);
/* The zone under a place; NULL: none. */
const struct cm_zone *cm_canvas_at(const struct cm_canvas *canvas, int y, int x);

/* The cell at a place, which must be on the canvas. */
static inline struct cm_cell *cm_canvas_cell(const struct cm_canvas *canvas, int y, int x)
{
	return &canvas->cell[(size_t)y * (size_t)canvas->width + (size_t)x];
}

#endif
