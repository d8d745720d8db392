/* SPDX-License-Identifier: MIT */
/*
 * Draws a history on a canvas: allocated memory as an area, reserved memory above it as a line, the
 * youngest sample at the right, and '!' where memory ran out.
 */
#ifndef CM_TOOLS_TOP_GRAPH_H
#define CM_TOOLS_TOP_GRAPH_H

#include "tools/top/canvas.h"
#include "tools/top/history.h"
#include "tools/top/model.h"

struct cm_graph {
	int y, x, height, width; /* cells */
	int64_t scale;           /* bytes at the upper edge; 0: the largest value on the picture */
	uint64_t held;           /* samples at the young end that are not shown */
	enum cm_top_graph kind;
};

/* The largest reserved memory in the samples that the graph shows. */
int64_t cm_graph_peak(const struct cm_graph *graph, const struct cm_top_history *history);
void cm_graph_draw(struct cm_canvas *canvas, const struct cm_graph *graph,
		   const struct cm_top_history *history);
/* A line of allocated memory alone, by its own scale. */
void cm_graph_spark(struct cm_canvas *canvas, const struct cm_graph *graph,
		    const struct cm_top_history *history, struct cm_pen pen);

#endif
