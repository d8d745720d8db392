/* SPDX-License-Identifier: MIT */
#include "tools/top/graph.h"

#define BRAILLE  0x2800
#define BLOCK    0x2580 /* and the one of eighths behind it */
#define DOT_ROWS 4
#define EIGHTHS  8

/* The bits of a braille character, by column and by row from below. */
static const unsigned dots[2][DOT_ROWS] = {{0x40, 0x04, 0x02, 0x01}, {0x80, 0x20, 0x10, 0x08}};

static int samples_of(const struct cm_graph *graph)
{
	return graph->kind == CM_TOP_GRAPH_BRAILLE ? 2 * graph->width : graph->width;
}

int64_t cm_graph_peak(const struct cm_graph *graph, const struct cm_top_history *history)
{
	const struct cm_top_point *point;
	int64_t peak = 1;
	int i;

	for (i = 0; i < samples_of(graph); i++) {
		point = cm_top_history_at(history, graph->held, (uint64_t)i);
		if (!point)
			break;
		if (point->reserved > peak)
			peak = point->reserved;
		if (point->allocated > peak)
			peak = point->allocated;
	}
	return peak;
}

/* How many of `steps` a value takes; a value above 0 takes at least one. */
static int steps_of(int64_t value, int64_t scale, int steps)
{
	const double share = (double)value / (double)scale;
	const int n = (int)(share * steps + 0.5);

	if (value <= 0 || scale <= 0)
		return 0;
	return n > steps || share > 1 ? steps : n ? n : 1;
}

static void draw_oom(struct cm_canvas *canvas, const struct cm_graph *graph, int column)
{
	cm_canvas_set(canvas, graph->y, graph->x + column,
		      (struct cm_pen){CM_COLOR_ALARM, CM_ATTR_BOLD}, L'!');
}

/* The dots of one sample in one cell, whose lowest dot is number `low`. */
static unsigned braille_dots(int allocated, int reserved, int low, int column)
{
	unsigned bits = 0;
	int row;

	for (row = 0; row < DOT_ROWS; row++)
		if (low + row < allocated || low + row == reserved - 1)
			bits |= dots[column][row];
	return bits;
}

static void draw_braille(struct cm_canvas *canvas, const struct cm_graph *graph,
			 const struct cm_top_history *history, int64_t scale, int column)
{
	const int steps = DOT_ROWS * graph->height;
	int y, side, allocated[2] = {0}, reserved[2] = {0};
	bool oom = false;

	for (side = 0; side < 2; side++) {
		const struct cm_top_point *point = cm_top_history_at(
			history, graph->held,
			(uint64_t)(2 * (graph->width - 1 - column) + 1 - side));

		if (!point)
			continue;
		allocated[side] = steps_of(point->allocated, scale, steps);
		reserved[side] = steps_of(point->reserved, scale, steps);
		oom |= point->oom;
	}
	for (y = 0; y < graph->height; y++) {
		const int low = DOT_ROWS * (graph->height - 1 - y);
		const unsigned bits = braille_dots(allocated[0], reserved[0], low, 0) |
				      braille_dots(allocated[1], reserved[1], low, 1);
		const bool inner = low < allocated[0] || low < allocated[1];

		if (bits)
			cm_canvas_set(canvas, graph->y + y, graph->x + column,
				      (struct cm_pen){
					      inner ? CM_COLOR_ALLOCATED : CM_COLOR_RELEASABLE, 0},
				      (wchar_t)(BRAILLE | bits));
	}
	if (oom)
		draw_oom(canvas, graph, column);
}

static void draw_column(struct cm_canvas *canvas, const struct cm_graph *graph,
			const struct cm_top_point *point, int64_t scale, int column)
{
	const bool ascii = graph->kind == CM_TOP_GRAPH_ASCII;
	const int parts = ascii ? 1 : EIGHTHS;
	const int allocated = steps_of(point->allocated, scale, parts * graph->height);
	const int reserved = steps_of(point->reserved, scale, parts * graph->height);
	int y;

	for (y = 0; y < graph->height; y++) {
		const int low = parts * (graph->height - 1 - y);
		const int part = allocated - low < parts ? allocated - low : parts;

		if (part > 0)
			cm_canvas_set(canvas, graph->y + y, graph->x + column,
				      (struct cm_pen){CM_COLOR_ALLOCATED, 0},
				      ascii ? L'#' : (wchar_t)(BLOCK + part));
		else if (low < reserved)
			cm_canvas_set(canvas, graph->y + y, graph->x + column,
				      (struct cm_pen){CM_COLOR_RELEASABLE, 0},
				      ascii ? L'.' : (wchar_t)(BLOCK + 0x11));
	}
	if (point->oom)
		draw_oom(canvas, graph, column);
}

void cm_graph_draw(struct cm_canvas *canvas, const struct cm_graph *graph,
		   const struct cm_top_history *history)
{
	const int64_t scale = graph->scale ? graph->scale : cm_graph_peak(graph, history);
	const struct cm_top_point *point;
	int column;

	for (column = 0; column < graph->width; column++) {
		if (graph->kind == CM_TOP_GRAPH_BRAILLE) {
			draw_braille(canvas, graph, history, scale, column);
			continue;
		}
		point = cm_top_history_at(history, graph->held,
					  (uint64_t)(graph->width - 1 - column));
		if (point)
			draw_column(canvas, graph, point, scale, column);
	}
}

void cm_graph_spark(struct cm_canvas *canvas, const struct cm_graph *graph,
		    const struct cm_top_history *history, struct cm_pen pen)
{
	static const char levels[] = " .:-=+*#@";
	const bool ascii = graph->kind == CM_TOP_GRAPH_ASCII;
	const struct cm_top_point *point;
	int64_t peak = 1;
	int i, step;

	for (i = 0; i < graph->width; i++) {
		point = cm_top_history_at(history, graph->held, (uint64_t)i);
		if (point && point->allocated > peak)
			peak = point->allocated;
	}
	for (i = 0; i < graph->width; i++) {
		point = cm_top_history_at(history, graph->held, (uint64_t)i);
		if (!point)
			break;
		step = steps_of(point->allocated, peak, EIGHTHS);
		if (step)
			cm_canvas_set(canvas, graph->y, graph->x + graph->width - 1 - i, pen,
				      ascii ? (wchar_t)levels[step] : (wchar_t)(BLOCK + step));
	}
}
