/* SPDX-License-Identifier: MIT */
/*
 * Snapshots as one self-contained page: the compressed data, and the program that draws it. The
 * page has every event and allocation, so nothing that it sums up is an estimate.
 */
#ifndef CM_TOOLS_PLOT_PLOT_H
#define CM_TOOLS_PLOT_PLOT_H

#include <stdio.h>

#include "tools/plot/columns.h"
#include "tools/processes/source.h"

/* One view of the page, or all of them behind tabs. */
enum cm_plot {
	CM_PLOT_TIMELINE,
	CM_PLOT_BLOCKS,
	CM_PLOT_FLAME,
	CM_PLOT_SIZES,
	CM_PLOT_PAGE,
	CM_PLOT_COUNT
};

/* "timeline", "blocks", "flame", "sizes", "page". */
const char *cm_plot_name(enum cm_plot plot);

/* What a page shows. */
struct cm_plot_report {
	size_t events;
	size_t spans;
};

/* Writes a page of `count` snapshots, which it compares if there are several. 0, -ENOMEM. The
 * caller finds the errors of the file. */
int cm_plot_write(const struct cm_source *source, size_t count, enum cm_plot plot, FILE *file,
		  struct cm_plot_report *ret_report);

/* The fixed parts of a page; lists end with NULL. */
struct cm_plot_page {
	const char *title;
	const char *const *styles;
	const char *html;
	const char *const *scripts;
};

/*
 * Closes the columns, writes a page with their data unless `err` says that they failed, and frees
 * them. `err`, 0 or -ENOMEM.
 */
int cm_plot_finish_page(struct cm_columns *columns, int err, const struct cm_plot_page *page,
			FILE *file);

/* Adds the data of a page. 0, -ENOMEM. */
int cm_plot_collect(const struct cm_source *source, size_t count, enum cm_plot plot,
		    struct cm_columns *columns, struct cm_plot_report *report);

#endif
