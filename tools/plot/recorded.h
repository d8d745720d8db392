/* SPDX-License-Identifier: MIT */
/*
 * A recording as one self-contained page: memory allocated and reserved of each card and process
 * over time. Samples are put together until some thousand times are left, of which each has the
 * largest values.
 */
#ifndef CM_TOOLS_PLOT_RECORDED_H
#define CM_TOOLS_PLOT_RECORDED_H

#include <stdio.h>

#include "tools/watch/source.h"

/* What a page shows. */
struct cm_plot_recorded {
	size_t samples;
	size_t series; /* of a device of a process */
	size_t cards;
};

/* Writes the page of all samples that are left. 0; -ENOMEM, or the error of the source. The caller
 * finds the errors of the file. */
int cm_plot_recorded(struct cm_watch_source *source, FILE *file,
		     struct cm_plot_recorded *ret_report);

#endif
