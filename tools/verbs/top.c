/* SPDX-License-Identifier: MIT */
/*
 * `top`: the processes and cards on a full screen, or with -b as text.
 */
#include <langinfo.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/top/batch.h"
#include "tools/top/canvas.h"
#include "tools/top/columns.h"
#include "tools/top/screen.h"
#include "tools/top/view.h"
#include "tools/verbs/verbs.h"
#include "tools/watch/replay.h"

#define BATCH_HEIGHT 24
#define BATCH_WIDTH  80

/* Reads "WIDTHxHEIGHT". */
static int parse_size(const char *text, int *height, int *width)
{
	const char *x = strchr(text, 'x');
	char digits[8] = "";
	uint64_t w = 0, h = 0;

	if (x && (size_t)(x - text) < sizeof(digits)) {
		memcpy(digits, text, (size_t)(x - text));
		if (!cm_number_parse(digits, CM_CANVAS_SIDE_MAX, &w) &&
		    !cm_number_parse(x + 1, CM_CANVAS_SIDE_MAX, &h) && w >= CM_VIEW_MIN_WIDTH &&
		    h >= CM_VIEW_MIN_HEIGHT) {
			*width = (int)w;
			*height = (int)h;
			return CM_EXIT_OK;
		}
	}
	return cm_fail(CM_EXIT_USAGE, "--size '%s' is invalid, want WIDTHxHEIGHT from %dx%d on",
		       text, CM_VIEW_MIN_WIDTH, CM_VIEW_MIN_HEIGHT);
}

static bool is_utf8(void)
{
	return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

static int apply_columns(const struct cm_options *options, struct cm_top *top)
{
	uint8_t column[CM_COLUMNS_MAX];
	size_t count;
	bool added;
	int exit;

	exit = cm_top_columns_parse(options->columns, column, &count, &added);
	if (exit)
		return exit;
	memcpy(added ? top->added : top->column, column, count);
	if (added) {
		top->added_count = count;
	} else {
		top->columns = count;
		top->columns_chosen = true;
	}
	return CM_EXIT_OK;
}

static int apply(const struct cm_options *options, struct cm_top *top)
{
	int exit = CM_EXIT_OK;

	if (options->columns)
		exit = apply_columns(options, top);
	if (!exit && options->sort)
		exit = cm_column_set_find(&cm_top_column_set, options->sort, &top->sort);
	if (!exit && options->where)
		exit = cm_where_parse(&cm_top_column_set, "where", options->where, &top->where);
	if (exit)
		return exit;
	if (options->where)
		(void)snprintf(top->filter, sizeof(top->filter), "%s", options->where);
	/* --sort has the smallest first in every command; without it numbers begin with the
	 * largest. */
	if (options->sort)
		top->reverse = options->reverse !=
			       (cm_top_column_set.columns[top->sort].align == CM_ALIGN_RIGHT);
	top->readonly = options->readonly;
	top->group_by = (enum cm_top_group)options->group_by;
	top->graph = options->ascii || !is_utf8() ? CM_TOP_GRAPH_ASCII
						  : (enum cm_top_graph)options->graph;
	if (options->delay_ns)
		top->interval_ns = options->delay_ns;
	return CM_EXIT_OK;
}

static int show_batch(const struct cm_options *options, struct cm_top *top,
		      struct cm_watch_source *source)
{
	int height = BATCH_HEIGHT, width = BATCH_WIDTH, exit;
	struct winsize size;

	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col >= CM_VIEW_MIN_WIDTH &&
	    size.ws_row >= CM_VIEW_MIN_HEIGHT) {
		width = size.ws_col;
		height = size.ws_row;
	}
	if (options->size) {
		exit = parse_size(options->size, &height, &width);
		if (exit)
			return exit;
	}
	top->batch = true;
	return cm_top_batch(top, source, height, width, options->frames, options->color);
}

static int show_screen(const struct cm_options *options, struct cm_top *top,
		       struct cm_watch_source *source)
{
#if CM_HAVE_NCURSES
	if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return cm_top_screen(options, top, source);
	(void)options;
	cm_complain("a full screen needs a terminal");
#else
	(void)options;
	(void)top;
	(void)source;
	cm_complain("this build has no full screen: it was built without ncursesw");
#endif
	cm_advise("'%s top -b' prints the same frames as text", CM_PROGRAM);
	return CM_EXIT_USAGE;
}

/* A recording is played as fast as it was made, unless --speed says otherwise. */
static void show_replay(struct cm_watch_source *source, struct cm_top *top)
{
	if (source->speed <= 0)
		source->speed = 1;
	top->replay = (struct cm_top_replay){.on = true,
					     .speed = source->speed,
					     .first_ns = source->first_ns,
					     .last_ns = source->last_ns};
	(void)snprintf(top->host, sizeof(top->host), "%s", source->host);
}

static int show(const struct cm_options *options, struct cm_top *top)
{
	struct cm_watch_source *source;
	int exit;

	exit = apply(options, top);
	if (!exit)
		exit = cm_watch_open(options, false, &source);
	if (exit)
		return exit;
	if (options->from)
		show_replay(source, top);
	exit = options->batch ? show_batch(options, top, source)
			      : show_screen(options, top, source);
	cm_watch_close(source);
	return exit;
}

int cm_verb_top(const struct cm_options *options)
{
	struct cm_top *top;
	int exit;

	if (options->columns && !strcmp(options->columns, "help")) {
		cm_column_set_list(&cm_top_column_set);
		return CM_EXIT_OK;
	}
	if (!options->batch && (options->frames || options->size))
		return cm_fail(CM_EXIT_USAGE, "--%s has an effect only with --batch",
			       options->frames ? "frames" : "size");
	top = malloc(sizeof(*top));
	if (!top)
		return cm_fail_memory();
	cm_top_init(top);
	exit = show(options, top);
	cm_top_fini(top);
	free(top);
	return exit;
}
