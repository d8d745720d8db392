/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as one self-contained page: the compressed data, and the program that draws it. Data
 * that is too much to draw is aggregated here, and the page says so.
 */
#ifndef CM_TOOLS_PLOT_PLOT_H
#define CM_TOOLS_PLOT_PLOT_H

#include <stdio.h>

#include "tools/output/json.h"
#include "tools/processes/source.h"

enum cm_plot { CM_PLOT_TIMELINE, CM_PLOT_BLOCKS, CM_PLOT_FLAME, CM_PLOT_SIZES, CM_PLOT_COUNT };

/* "timeline", "blocks", "flame", "sizes". */
const char *cm_plot_name(enum cm_plot plot);

/* What a page shows. */
struct cm_plot_report {
	size_t events;
	size_t spans;
	size_t spans_summed; /* aggregated to one band */
};

/* Writes the page. 0, -ENOMEM. The caller finds the errors of the file. */
int cm_plot_write(const struct cm_source *source, enum cm_plot plot, FILE *file,
		  struct cm_plot_report *ret_report);

/*
 * The data of a page: a description in JSON and columns of numbers, little endian, each at a
 * multiple of 8 bytes. For each column the description has [name, type, first byte, count].
 */
struct cm_columns {
	FILE *file; /* into `bytes` */
	char *bytes;
	size_t count;
	struct cm_json json; /* the description, into `text` */
	FILE *text_file;
	char *text;
	size_t text_count;
};

/* Adds the data of a plot. 0, -ENOMEM. */
int cm_plot_collect(const struct cm_source *source, enum cm_plot plot, struct cm_columns *columns,
		    struct cm_plot_report *report);

#endif
