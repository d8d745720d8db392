/* SPDX-License-Identifier: MIT */
/*
 * The table of processes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stats/units.h"
#include "tools/top/graph.h"
#include "tools/top/view.h"

#define MARKS 2 /* cells before the first column: the selection, and how the process is */

static const struct cm_pen heading = {CM_COLOR_PLAIN, CM_ATTR_REVERSE};

/* The width of a column that begins at x. */
static int width_left(const struct cm_top *top, const struct cm_canvas *canvas, int x,
		      size_t column)
{
	const int width = cm_top_column_width(column, top->exact);
	const int left = canvas->width - x;

	return !width || width > left ? left : width;
}

/* The first column stays. */
static bool is_scrolled_away(const struct cm_top *top, size_t i)
{
	return i && i <= top->first_column;
}

/* Are the smallest values at the top? Numbers are in descending order unless the user reversed
 * them. */
static bool is_rising(const struct cm_top *top)
{
	return top->reverse == (cm_top_column_set.columns[top->sort].align == CM_ALIGN_RIGHT);
}

static void draw_headings(const struct cm_top *top, struct cm_canvas *canvas, int y)
{
	size_t i;
	int x = MARKS, width, pad;

	cm_canvas_fill(canvas, y, 0, canvas->width, heading, L' ');
	for (i = 0; i < top->columns && x < canvas->width; i++) {
		const struct cm_column *column = &cm_top_column_set.columns[top->column[i]];
		const bool sorted = top->column[i] == top->sort;

		if (is_scrolled_away(top, i))
			continue;
		width = width_left(top, canvas, x, top->column[i]);
		pad = column->align == CM_ALIGN_RIGHT ? width - (int)strlen(column->name) : 0;
		cm_canvas_zone(canvas, CM_ZONE_HEADING, y, x, width, top->column[i]);
		(void)cm_canvas_text(
			canvas, y, x + (pad > 0 ? pad : 0), width,
			(struct cm_pen){sorted ? CM_COLOR_ALLOCATED : CM_COLOR_PLAIN,
					sorted ? CM_ATTR_REVERSE | CM_ATTR_BOLD : CM_ATTR_REVERSE},
			column->name);
		if (sorted)
			cm_canvas_set(canvas, y,
				      pad > 0 ? x + pad - 1 : x + (int)strlen(column->name),
				      heading, is_rising(top) ? L'^' : L'v');
		x += width + 1;
	}
}

void cm_view_value(const struct cm_value *value, bool exact, char text[CM_VIEW_VALUE_BYTES])
{
	switch (value->kind) {
	case CM_VALUE_NONE:
		(void)snprintf(text, CM_VIEW_VALUE_BYTES, "-");
		break;
	case CM_VALUE_BYTES:
		if (exact)
			(void)snprintf(text, CM_VIEW_VALUE_BYTES, "%" PRId64, value->number);
		else
			(void)snprintf(text, CM_VIEW_VALUE_BYTES, "%s",
				       cm_bytes_format(value->number).text);
		break;
	case CM_VALUE_NUMBER:
		(void)snprintf(text, CM_VIEW_VALUE_BYTES, "%" PRId64, value->number);
		break;
	case CM_VALUE_REAL:
		(void)snprintf(text, CM_VIEW_VALUE_BYTES, "%.1f", value->real);
		break;
	case CM_VALUE_TEXT:
		text[0] = '\0';
		break;
	}
}

static void draw_value(const struct cm_top *top, struct cm_canvas *canvas,
		       const struct cm_top_row *row, size_t column, int y, int x, int width,
		       struct cm_pen pen)
{
	const struct cm_value *value = &row->value[column];
	char text[CM_VIEW_VALUE_BYTES];
	int length;

	if (value->alarming)
		pen.color = CM_COLOR_ALARM;
	if (value->kind == CM_VALUE_TEXT) {
		(void)cm_canvas_text(canvas, y, x, width, pen, value->text);
		return;
	}
	if (row->is_group && !value->kind)
		return;
	cm_view_value(value, top->exact, text);
	length = (int)strlen(text);
	if (cm_top_column_set.columns[column].align == CM_ALIGN_RIGHT && length < width)
		x += width - length;
	/* A number is never cut: it would read as another number. */
	if (length > width)
		cm_canvas_fill(canvas, y, x, width, pen, L'*');
	else
		(void)cm_canvas_text(canvas, y, x, width, pen, text);
}

/* The name of a group takes the place of the columns for which it has no values. */
static void draw_group_name(const struct cm_top *top, struct cm_canvas *canvas,
			    const struct cm_top_row *row, int y, struct cm_pen pen)
{
	size_t i;
	int x = MARKS;

	for (i = 0; i < top->columns && x < canvas->width && !row->value[top->column[i]].kind; i++)
		if (!is_scrolled_away(top, i))
			x += width_left(top, canvas, x, top->column[i]) + 1;
	(void)cm_canvas_text(canvas, y, MARKS, x - MARKS - 1, pen, row->group);
}

static wchar_t mark_of(const struct cm_top_row *row)
{
	if (row->is_group)
		return L'+';
	if (row->error)
		return L'?';
	return row->life == CM_LIFE_CRASHED ? L'C' : row->life == CM_LIFE_STOPPED ? L'T' : L' ';
}

static void draw_row(const struct cm_top *top, struct cm_canvas *canvas,
		     const struct cm_top_row *row, int y)
{
	const bool selected = row == top->selected;
	struct cm_pen pen = {CM_COLOR_PLAIN, selected ? CM_ATTR_REVERSE : 0};
	size_t i;
	int x = MARKS, width;

	if (row->is_group)
		pen.attr |= CM_ATTR_BOLD;
	if (row->life == CM_LIFE_CRASHED)
		pen.color = CM_COLOR_ALARM;
	cm_canvas_fill(canvas, y, 0, canvas->width, pen, L' ');
	cm_canvas_set(canvas, y, 0, pen, selected ? L'>' : L' ');
	cm_canvas_set(canvas, y, 1, pen, mark_of(row));
	for (i = 0; i < top->columns && x < canvas->width; i++) {
		if (is_scrolled_away(top, i))
			continue;
		width = width_left(top, canvas, x, top->column[i]);
		if (top->column[i] == CM_TOP_COLUMN_HISTORY) {
			const struct cm_graph graph = {.y = y,
						       .x = x,
						       .width = width,
						       .held = top->held,
						       .kind = top->graph};

			cm_graph_spark(canvas, &graph, &row->history, pen);
		} else {
			draw_value(top, canvas, row, top->column[i], y, x, width, pen);
		}
		x += width + 1;
	}
	if (row->is_group)
		draw_group_name(top, canvas, row, y, pen);
}

static void draw_nothing(const struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	const struct cm_pen pen = {CM_COLOR_PLAIN, 0};

	if (height < 1)
		return;
	if (top->rows) {
		(void)cm_canvas_text(canvas, y, MARKS, canvas->width, pen,
				     top->where ? "no process matches the filter; f changes it"
						: "all processes are hidden; 0 lists all cards");
		return;
	}
	(void)cm_canvas_text(canvas, y, MARKS, canvas->width - MARKS, pen,
			     "no process uses libcudamem yet");
	if (height > 1)
		(void)cm_canvas_text(canvas, y + 1, MARKS, canvas->width - MARKS, pen,
				     "start one: cudamemstat run -- COMMAND, or cudamemstat demo");
}

void cm_view_table(struct cm_top *top, struct cm_canvas *canvas, int y, int height)
{
	int i;

	if (height < 1)
		return;
	draw_headings(top, canvas, y);
	top->page = (size_t)(height - 1);
	if (top->page && top->first + top->page > top->shown_count)
		top->first = top->shown_count > top->page ? top->shown_count - top->page : 0;
	if (!top->shown_count)
		draw_nothing(top, canvas, y + 1, height - 1);
	for (i = 0; i < height - 1 && top->first + (size_t)i < top->shown_count; i++) {
		const size_t line = top->first + (size_t)i;

		cm_canvas_zone(canvas, CM_ZONE_LINE, y + 1 + i, 0, canvas->width, line);
		draw_row(top, canvas, top->shown[line], y + 1 + i);
	}
}
