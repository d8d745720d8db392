/* SPDX-License-Identifier: MIT */
#include "tools/output/emit_table.h"

#include <errno.h>
#include <libsmartcols.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"

#define WRAP_LEAST 20 /* of a last column that is wrapped, if others can be left out for it */
#define WRAP_MIN   8  /* a narrower one is not wrapped */
#define CUT_ABOVE  16 /* a PCI id stays whole */
#define CUT_LEAST  14 /* what is left of a column that is cut */

const char *cm_emit_spell(const struct cm_emit *emit, const struct cm_value *value,
			  char cell[CM_CELL_BYTES])
{
	const bool exact = emit->options->form != CM_FORM_TABLE;

	switch (value->kind) {
	case CM_VALUE_NONE:
		return emit->options->form == CM_FORM_CSV || emit->options->form == CM_FORM_PAIRS
			       ? ""
			       : "-";
	case CM_VALUE_TEXT:
		return value->text;
	case CM_VALUE_BYTES:
	case CM_VALUE_NUMBER:
		if (value->kind == CM_VALUE_BYTES && !exact && !emit->options->bytes)
			(void)snprintf(cell, CM_CELL_BYTES, "%s",
				       cm_bytes_format(value->number).text);
		else
			(void)snprintf(cell, CM_CELL_BYTES, "%lld", (long long)value->number);
		return cell;
	case CM_VALUE_REAL:
		/* Truncated, not rounded, for people: 99.99 % is not 100.0 %. */
		(void)snprintf(cell, CM_CELL_BYTES, exact ? "%.3f" : "%.1f",
			       exact ? value->real : floor(10 * value->real) / 10);
		return cell;
	}
	return "";
}

static const struct cm_value *value_of(const struct cm_emit *emit, size_t row, size_t column)
{
	return &emit->values[row * emit->column_set->count + column];
}

/* The columns of the terminal that a column of the table needs. */
static size_t measure_column(const struct cm_emit *emit, size_t picked)
{
	const struct cm_column *column = &emit->column_set->columns[picked];
	size_t row, length, width = strlen(column->name);
	char cell[CM_CELL_BYTES];

	if (column->align == CM_ALIGN_WRAP)
		return WRAP_LEAST;
	if (emit->column_set->live)
		return width > (size_t)column->width ? width : (size_t)column->width;
	for (row = 0; row < emit->rows; row++) {
		length = cm_text_width(cm_emit_spell(emit, value_of(emit, row, picked), cell));
		width = length > width ? length : width;
	}
	return column->align == CM_ALIGN_CUT && width > CUT_LEAST ? CUT_LEAST : width;
}

static size_t measure_table(const struct cm_emit *emit)
{
	size_t i, width = emit->picked_count - 1;

	for (i = 0; i < emit->picked_count; i++)
		width += measure_column(emit, emit->picked[i]);
	return width;
}

/* Whether all values of a column are 0 or missing. */
static bool is_column_empty(const struct cm_emit *emit, size_t picked)
{
	size_t row;

	for (row = 0; row < emit->rows; row++) {
		const struct cm_value *value = value_of(emit, row, picked);

		if (value->kind != CM_VALUE_NONE &&
		    (value->kind == CM_VALUE_TEXT || value->number || value->real > 0))
			return false;
	}
	return emit->rows > 0;
}

/* The place of the column to leave out next: one without a value, or else the highest `usual`;
 * picked_count: none. */
static size_t find_least(const struct cm_emit *emit)
{
	size_t i, least = emit->picked_count;
	unsigned rank, highest = 1;

	for (i = 0; i < emit->usual_count; i++) {
		rank = emit->column_set->columns[emit->picked[i]].usual;
		if (rank > 1 && is_column_empty(emit, emit->picked[i]))
			rank += UINT8_MAX;
		if (rank <= highest)
			continue;
		highest = rank;
		least = i;
	}
	return least;
}

void cm_emit_fit(struct cm_emit *emit)
{
	size_t width, at;

	/* A program that counts columns names them, or wants no headings. */
	if (!cm_is_terminal(stdout, &width) &&
	    (emit->options->columns || emit->options->no_headings))
		return;
	width = cm_line_width(stdout);
	while (measure_table(emit) > width) {
		at = find_least(emit);
		if (at == emit->picked_count)
			return;
		emit->picked_count--;
		emit->usual_count--;
		memmove(&emit->picked[at], &emit->picked[at + 1],
			(emit->picked_count - at) * sizeof(emit->picked[0]));
	}
}

/* The width that the other columns leave for the wrapped one; 0: too narrow, or no terminal. */
static size_t measure_rest(const struct cm_emit *emit)
{
	const size_t others = measure_table(emit) - WRAP_LEAST;
	size_t width;

	if (!cm_is_terminal(stdout, &width) || others + WRAP_MIN > width)
		return 0;
	return width - others;
}

static int add_wrapped(struct libscols_table *table, const char *name)
{
	struct libscols_column *column = scols_table_new_column(table, name, 0, SCOLS_FL_WRAP);

	return column && !scols_column_set_safechars(column, "\n") &&
			       !scols_column_set_wrapfunc(column, scols_wrapnl_chunksize,
							  scols_wrapnl_nextchunk, NULL)
		       ? 0
		       : -ENOMEM;
}

static int set_wrapped(struct libscols_line *line, size_t i, const char *text, size_t width)
{
	char *broken = cm_text_wrap(text, width);

	if (!broken)
		return -ENOMEM;
	return scols_line_refer_data(line, i, broken);
}

static int fill_table(struct cm_emit *emit, struct libscols_table *table)
{
	size_t width;
	/* A table that is still too wide loses the ends of its longer texts. */
	const bool fits = !cm_is_terminal(stdout, &width) || measure_table(emit) <= width;
	int flags[] = {
		[CM_ALIGN_LEFT] = 0,
		[CM_ALIGN_RIGHT] = SCOLS_FL_RIGHT,
		[CM_ALIGN_CUT] = SCOLS_FL_TRUNC,
		[CM_ALIGN_WRAP] = SCOLS_FL_TRUNC,
	};
	const size_t rest = measure_rest(emit);
	char cell[CM_CELL_BYTES];
	size_t row, i;

	for (i = 0; i < emit->picked_count; i++) {
		const struct cm_column *column = &emit->column_set->columns[emit->picked[i]];

		flags[CM_ALIGN_LEFT] = !fits && measure_column(emit, emit->picked[i]) > CUT_ABOVE
					       ? SCOLS_FL_TRUNC
					       : 0;
		if (rest && column->align == CM_ALIGN_WRAP
			    ? add_wrapped(table, column->name)
			    : !scols_table_new_column(table, column->name, 0, flags[column->align]))
			return -ENOMEM;
	}
	for (row = 0; row < emit->rows; row++) {
		struct libscols_line *line = scols_table_new_line(table, NULL);

		if (!line)
			return -ENOMEM;
		for (i = 0; i < emit->picked_count; i++) {
			const struct cm_value *value = value_of(emit, row, emit->picked[i]);
			const char *text = cm_emit_spell(emit, value, cell);

			if (rest && emit->column_set->columns[emit->picked[i]].align ==
						    CM_ALIGN_WRAP
				    ? set_wrapped(line, i, text, rest)
				    : scols_line_set_data(line, i, text))
				return -ENOMEM;
			if (value->alarming && emit->options->color)
				(void)scols_cell_set_color(scols_line_get_cell(line, i), "red");
		}
	}
	return 0;
}

void cm_emit_put_table(struct cm_emit *emit)
{
	struct libscols_table *table;

	cm_emit_fit(emit);
	table = scols_new_table();
	if (!table || fill_table(emit, table)) {
		cm_complain("not enough memory on the host for the table");
		scols_unref_table(table);
		return;
	}
	(void)scols_table_enable_noheadings(table, emit->options->no_headings);
	(void)scols_table_enable_colors(table, emit->options->color);
	(void)scols_print_table(table);
	scols_unref_table(table);
}
