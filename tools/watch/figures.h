/* SPDX-License-Identifier: MIT */
/*
 * The counters of a device that a recording keeps: what the columns of `ls`, `stat` and `top` are
 * computed from. They are chosen so that few of them change between two samples. What is free on a
 * card is not among them: it is the card's. Pure.
 */
#ifndef CM_TOOLS_WATCH_FIGURES_H
#define CM_TOOLS_WATCH_FIGURES_H

#include <stdint.h>

#include "stats/layout.h"

/* The order is that of recordings: a new figure is added at the end. The first ones change most. */
enum cm_figure {
	CM_FIGURE_FREES,
	CM_FIGURE_ALLOCATED, /* bytes, as all up to CM_FIGURE_RELEASABLE but blocks */
	CM_FIGURE_BLOCKS,
	CM_FIGURE_PENDING,
	CM_FIGURE_ROUNDING,
	CM_FIGURE_RELEASABLE,
	CM_FIGURE_WAIT_NS,
	CM_FIGURE_MISSES,
	CM_FIGURE_RESERVED,             /* bytes */
	CM_FIGURE_SEGMENTS_BEYOND,      /* segments beyond driver allocations less driver frees */
	CM_FIGURE_PEAK_ALLOCATED,       /* bytes */
	CM_FIGURE_PEAK_RESERVED,        /* bytes */
	CM_FIGURE_DRIVER_ALLOCS_BEYOND, /* driver allocations beyond misses */
	CM_FIGURE_DRIVER_FREES,
	CM_FIGURE_UNCACHED, /* bytes */
	CM_FIGURE_OOMS,
	CM_FIGURE_RETRIES,
	CM_FIGURE_DECAYED, /* bytes, as the next two */
	CM_FIGURE_GIVEN,
	CM_FIGURE_GOT,
	CM_FIGURE_BASE,        /* blocks at the last reset */
	CM_FIGURE_HITS_BEYOND, /* hits and misses beyond allocations */
	CM_FIGURE_TORN,        /* 1: the figures are of no one moment */
	CM_FIGURE_COUNT
};

/* Reads all figures of a row but CM_FIGURE_TORN. */
void cm_figures_read(const struct cm_device_row *row, int64_t ret_figure[CM_FIGURE_COUNT]);
/* Fills a row that is otherwise zero, so that the figures can be computed from it again. */
void cm_figures_write(const int64_t figure[CM_FIGURE_COUNT], struct cm_device_row *ret_row);

#endif
