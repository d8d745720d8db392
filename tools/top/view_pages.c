/* SPDX-License-Identifier: MIT */
/*
 * What takes the place of the table: details of a process, menus, the help.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/width.h"
#include "tools/top/graph.h"
#include "tools/top/view.h"

#define GRAPH_MAX 10 /* lines */
#define LABEL     9  /* cells left of the big graph */
#define WIDE      72 /* cells of a screen that has room for versions */

#define RECORDED_WIDTH 27 /* cells of a figure in the details of a recording */

static const struct cm_pen plain = {CM_COLOR_PLAIN, 0};
static const struct cm_pen bold = {CM_COLOR_PLAIN, CM_ATTR_BOLD};
static const struct cm_pen bar = {CM_COLOR_PLAIN, CM_ATTR_REVERSE};

/* Names the key that closes the page, if there is room. */
static void draw_heading(struct cm_canvas *canvas, int y, const char *text)
{
	static const char back[] = "   Esc: back";
	int x;

	cm_canvas_fill(canvas, y, 0, canvas->width, bar, L' ');
	x = cm_canvas_text(canvas, y, 1, canvas->width - 1, bar, text);
	if (x + (int)strlen(back) <= canvas->width)
		(void)cm_canvas_text(canvas, y, x, canvas->width - x, bar, back);
}

static void draw_identity(const struct cm_top *top, struct cm_canvas *canvas, int y)
{
	const struct cm_top_row *row = top->selected;
	const bool versions = *row->version && canvas->width >= WIDE;
	char text[CM_TOP_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "pid %d  %s  %s%s%s%s%s", (int)row->pid, row->user,
		       cm_life_name(row->life), versions ? "  libcudamem " : "",
		       versions ? row->version : "", row->up_ns ? "  up " : "",
		       row->up_ns ? cm_duration_format(row->up_ns).text : "");
	draw_heading(canvas, y, text);
}

/* The graph of the selected process, with its scale at the left. Returns its lines. */
static int draw_graph(const struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	const struct cm_top_row *row = top->selected;
	struct cm_graph graph = {.y = y,
				 .x = LABEL,
				 .height = height / 3 < GRAPH_MAX ? height / 3 : GRAPH_MAX,
				 .width = canvas->width - LABEL,
				 .held = top->held,
				 .kind = top->graph};
	char oom[64];
	int x;

	if (graph.height < 2)
		return 0;
	graph.scale = cm_graph_peak(&graph, &row->history);
	(void)cm_canvas_print(canvas, y, 0, LABEL - 1, plain, "%*s", LABEL - 1,
			      cm_bytes_format(graph.scale).text);
	(void)cm_canvas_print(canvas, y + graph.height - 1, 0, LABEL - 1, plain, "%*s", LABEL - 1,
			      "0");
	cm_graph_draw(canvas, &graph, &row->history);
	x = cm_canvas_print(canvas, y + graph.height, LABEL, graph.width, plain,
			    "allocated %s, reserved %s", cm_bytes_format(row->sum.allocated).text,
			    cm_bytes_format(row->sum.reserved).text);
	if (row->oom_ns && top->time_ns >= row->oom_ns) {
		(void)snprintf(oom, sizeof(oom), "out of memory %s ago",
			       cm_duration_format(top->time_ns - row->oom_ns).text);
		/* On a narrow screen the sign of the graph stands for the words. */
		if (x + 3 + (int)strlen(oom) > canvas->width)
			(void)snprintf(oom, sizeof(oom), "! %s ago",
				       cm_duration_format(top->time_ns - row->oom_ns).text);
		(void)cm_canvas_text(canvas, y + graph.height, x + 3, canvas->width - x - 3,
				     (struct cm_pen){CM_COLOR_ALARM, CM_ATTR_BOLD}, oom);
	}
	return graph.height + 1;
}

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; *text; text += strcspn(text, "\n"), text += *text == '\n')
		n++;
	return n;
}

/* The text on lines of at most so many cells. The caller frees it; NULL: not enough memory. */
static char *wrap_lines(const char *text, size_t width)
{
	char *wrapped = NULL, *line, *parts;
	size_t bytes, length;
	FILE *file = open_memstream(&wrapped, &bytes);

	if (!file)
		return NULL;
	for (; *text; text += length + (text[length] == '\n')) {
		length = strcspn(text, "\n");
		line = strndup(text, length);
		parts = line && cm_text_width(line) > width ? cm_text_wrap(line, width) : NULL;
		(void)fprintf(file, "%s\n", parts ? parts : line ? line : "");
		free(parts);
		free(line);
	}
	if (!fclose(file))
		return wrapped;
	free(wrapped);
	return NULL;
}

/* Says in the heading that a text goes on below, if there is room. */
static void draw_more(struct cm_canvas *canvas, int y)
{
	static const char more[] = " Down: more";
	const int x = canvas->width - (int)strlen(more) - 1;
	int i;

	for (i = x; i < canvas->width; i++)
		if (i < 0 || cm_canvas_cell(canvas, y, i)->ch != L' ')
			return;
	(void)cm_canvas_text(canvas, y, x, canvas->width - x, bar, more);
}

/* The lines of a text from top->menu on, which is brought back into the text. */
static void draw_lines(struct cm_top *top, struct cm_canvas *canvas, int heading, int y, int height,
		       const char *text)
{
	const size_t lines = count_lines(text), room = height > 0 ? (size_t)height : 0;
	char line[1024];
	size_t i, length;

	if (top->menu + room > lines)
		top->menu = lines > room ? lines - room : 0;
	if (top->menu + room < lines)
		draw_more(canvas, heading);
	for (i = 0; *text && i < top->menu + room; i++) {
		length = strcspn(text, "\n");
		if (i >= top->menu) {
			(void)snprintf(line, sizeof(line), "%.*s", (int)length, text);
			(void)cm_canvas_text(canvas, y++, 1, canvas->width - 1, plain, line);
		}
		text += length + (text[length] == '\n');
	}
}

/* What a recording has of a process: the values of the columns, side by side. */
static void draw_recorded(const struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	char text[CM_VIEW_VALUE_BYTES];
	size_t column;
	int n = 0;

	if (height < 3)
		return;
	(void)cm_canvas_text(canvas, y, 1, canvas->width - 1, plain,
			     "Recorded figures; pools, map, options and stacks are not in a "
			     "recording, but in a snapshot.");
	for (column = 0; column < CM_TOP_COLUMN_COUNT; column++) {
		const struct cm_value *value = &top->selected->value[column];
		const int x = 1 + n / (height - 2) * RECORDED_WIDTH;

		if (value->kind == CM_VALUE_NONE || value->kind == CM_VALUE_TEXT)
			continue;
		cm_view_value(value, top->exact, text);
		(void)cm_canvas_print(canvas, y + 2 + n % (height - 2), x, canvas->width - x, plain,
				      "%-10s %13s", cm_top_column_set.columns[column].name, text);
		n++;
	}
}

void cm_view_detail(struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	char *text;
	int graph;

	if (!top->selected || top->selected->is_group) {
		draw_heading(canvas, y, "this process is gone");
		return;
	}
	draw_identity(top, canvas, y);
	(void)cm_canvas_text(canvas, y + 1, 1, canvas->width - 1, bold, top->selected->command);
	graph = draw_graph(top, canvas, y + 2, height - 2);
	if (top->replay.on) {
		draw_recorded(top, canvas, y + 2 + graph, height - 2 - graph);
		return;
	}
	text = top->detail ? wrap_lines(top->detail, (size_t)canvas->width - 1) : NULL;
	draw_lines(top, canvas, y, y + 2 + graph, height - 2 - graph,
		   text          ? text
		   : top->detail ? top->detail
				 : "reading ...");
	free(text);
}

static bool is_on_screen(const struct cm_top *top, size_t column)
{
	size_t i;

	for (i = 0; i < top->columns; i++)
		if (top->column[i] == column)
			return true;
	return false;
}

void cm_view_menu(struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	const bool columns = top->mode == CM_TOP_MENU_COLUMNS;
	const size_t room = height > 1 ? (size_t)(height - 1) : 0;
	size_t first, i;

	draw_heading(canvas, y, columns ? "Columns   Space: on or off" : "Sort by   Enter: choose");
	first = top->menu >= room && room ? top->menu - room + 1 : 0;
	for (i = 0; i < room && first + i < CM_TOP_COLUMN_COUNT; i++) {
		const struct cm_column *column = &cm_top_column_set.columns[first + i];
		const struct cm_pen pen = first + i == top->menu ? bar : plain;
		const int line = y + 1 + (int)i;
		const bool on = columns ? is_on_screen(top, first + i) : top->sort == first + i;

		cm_canvas_fill(canvas, line, 0, canvas->width, pen, L' ');
		(void)cm_canvas_print(canvas, line, 1, canvas->width - 1, pen, "[%c] %-10s %s",
				      on ? 'x' : ' ', column->name, column->help);
	}
}

#define KEYS       13 /* cells of the help's column of keys */
#define HELP_LEAST 30 /* on a narrower screen the help is cut */

static const char help[] =
	"Up Down j k, PgUp PgDn, Home End g G   select a process\n"
	"Left Right   scroll the columns\n"
	"Enter        details: graph, pools, map, options, stacks; Esc goes back\n"
	"< > , .      sort by the column to the left or right   r  reverse   s  menu\n"
	"f            filter, as --where: FRAGMENTED > 4G && USER == alice; Esc: none\n"
	"/            search in the commands; Down: the next one\n"
	"F            keep the selected process in view\n"
	"Space p      pause the display; sampling continues\n"
	"+ -          longer or shorter interval\n"
	"[ ] { }      of a recording: a minute, an hour back or on   + -  its speed\n"
	"1 to 9, 0    list or hide the processes of a card; list all   d  cards on/off\n"
	"t            group by container, job, user, program\n"
	"o F2         columns   b  exact bytes   c  crashed processes on/off\n"
	"^L           redraw the screen   ^Z  to the background   q Esc F10 ^C  quit\n"
	"\n"
	"On a process of your own, asked twice each:\n"
	"T trim   R reset peaks   H history on/off   S save a snapshot   X send SIGTERM\n"
	"\n"
	"Mouse: click a heading to sort, a line to select it, again for details, a key.\n"
	"\n"
	"Before a process: > selected   C crashed   T stopped   ? not readable   + group\n"
	"Bar of a card: allocated, pending free, fragmented, releasable, others, free.\n"
	"Graph: the area is allocated, the line above it reserved, ! out of memory\n";

/* A line of the help; what does not fit continues below its text, behind the column of keys. */
static void put_help(FILE *file, const char *line, size_t width)
{
	const size_t keys = strlen(line) > KEYS && strlen(line) > width ? KEYS : 0;
	char *wrapped = cm_text_wrap(line + keys, width - keys), *part, *end;

	(void)fprintf(file, "%.*s", (int)keys, line);
	for (part = wrapped; part; part = end ? end + 1 : NULL) {
		end = strchr(part, '\n');
		(void)fprintf(file, "%*s%.*s\n", part == wrapped ? 0 : KEYS, "",
			      (int)(end ? (size_t)(end - part) : strlen(part)), part);
	}
	free(wrapped);
}

/* The help on lines of so many cells. The caller frees it; NULL: not enough memory. */
static char *wrap_help(size_t width)
{
	char *text = NULL, line[128];
	const char *at = help;
	size_t bytes, length;
	FILE *file = open_memstream(&text, &bytes);

	if (!file)
		return NULL;
	for (; *at; at += length + 1) {
		length = strcspn(at, "\n");
		(void)snprintf(line, sizeof(line), "%.*s", (int)length, at);
		put_help(file, line, width);
	}
	if (!fclose(file))
		return text;
	free(text);
	return NULL;
}

void cm_view_help(struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	char *text = wrap_help(canvas->width < HELP_LEAST ? HELP_LEAST : (size_t)canvas->width - 1);

	draw_heading(canvas, y, "Keys");
	draw_lines(top, canvas, y, y + 1, height - 1, text ? text : help);
	free(text);
}
