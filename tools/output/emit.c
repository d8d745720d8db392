/* SPDX-License-Identifier: MIT */
#include "tools/output/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tools/cli/exits.h"
#include "tools/output/emit_table.h"
#include "tools/output/json.h"
#include "tools/output/quote.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"
#include "tools/output/where.h"

static bool is_json_document(const struct cm_emit *emit)
{
	return emit->options->form == CM_FORM_JSON && !emit->column_set->live;
}

static void pick_usual(struct cm_emit *emit)
{
	size_t i;

	for (i = 0; i < emit->column_set->count; i++)
		if (emit->column_set->columns[i].usual)
			emit->picked[emit->picked_count++] = i;
	emit->usual_count = emit->picked_count;
}

/* A column that is named stays when the table is fitted to the screen, and is there once. */
static void unpick(struct cm_emit *emit, size_t column)
{
	size_t i;

	for (i = 0; i < emit->picked_count && emit->picked[i] != column; i++)
		;
	if (i == emit->picked_count)
		return;
	emit->usual_count -= i < emit->usual_count;
	emit->picked_count--;
	memmove(&emit->picked[i], &emit->picked[i + 1],
		(emit->picked_count - i) * sizeof(emit->picked[0]));
}

/* -o NAME,NAME or +NAME,NAME. */
static int pick_columns(struct cm_emit *emit, const char *list)
{
	char name[CM_CELL_BYTES];
	size_t length, column;
	int err;

	if (!list || *list == '+')
		pick_usual(emit);
	if (!list)
		return 0;
	list += *list == '+';
	do {
		length = strcspn(list, ",");
		(void)snprintf(name, sizeof(name), "%.*s", (int)length, list);
		err = cm_column_set_find(emit->column_set, name, &column);
		if (err)
			return err;
		unpick(emit, column);
		if (emit->picked_count == CM_COLUMNS_MAX)
			return cm_fail(CM_EXIT_USAGE, "more than %d columns", CM_COLUMNS_MAX);
		emit->picked[emit->picked_count++] = column;
		list += length;
	} while (*list++);
	return 0;
}

static size_t screen_lines(void)
{
	struct winsize size;

	if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row < 4)
		return 0;
	return size.ws_row - (size_t)1;
}

static void put_json_value(struct cm_json *json, const char *key, const struct cm_value *value)
{
	switch (value->kind) {
	case CM_VALUE_NONE:
		cm_json_null(json, key);
		break;
	case CM_VALUE_TEXT:
		cm_json_text(json, key, value->text);
		break;
	case CM_VALUE_BYTES:
	case CM_VALUE_NUMBER:
		cm_json_number(json, key, value->number);
		break;
	case CM_VALUE_REAL:
		cm_json_real(json, key, value->real);
		break;
	}
}

static void put_json_row(const struct cm_emit *emit, struct cm_json *json,
			 const struct cm_value *values)
{
	size_t i;

	cm_json_object(json, NULL);
	for (i = 0; i < emit->picked_count; i++) {
		const struct cm_column *column = &emit->column_set->columns[emit->picked[i]];

		put_json_value(json, column->key, &values[emit->picked[i]]);
		if (column->old_key)
			put_json_value(json, column->old_key, &values[emit->picked[i]]);
	}
	cm_json_end(json);
}

/* printf's width: a negative one aligns left. */
static int pad(const struct cm_column *column)
{
	return column->align == CM_ALIGN_RIGHT ? column->width : -column->width;
}

/* Prints one row in the forms in which a row does not depend on others. */
static void put_line(struct cm_emit *emit, const struct cm_value *values)
{
	const enum cm_form form = emit->options->form;
	struct cm_json json;
	char cell[CM_CELL_BYTES];
	size_t i;

	if (form == CM_FORM_NDJSON || form == CM_FORM_JSON) {
		cm_json_init(&json, stdout);
		put_json_row(emit, &json, values);
		return;
	}
	for (i = 0; i < emit->picked_count; i++) {
		const struct cm_column *column = &emit->column_set->columns[emit->picked[i]];
		const char *text = cm_emit_spell(emit, &values[emit->picked[i]], cell);

		if (i)
			(void)putchar(form == CM_FORM_CSV ? ',' : ' ');
		if (form == CM_FORM_CSV)
			cm_quote_csv(stdout, text);
		else if (form == CM_FORM_RAW)
			cm_quote_raw(stdout, text);
		else if (form == CM_FORM_PAIRS) {
			(void)printf("%s=", column->key);
			cm_quote_pair(stdout, text);
			if (column->old_key) {
				(void)printf(" %s=", column->old_key);
				cm_quote_pair(stdout, text);
			}
		} else
			(void)printf("%*s", pad(column), text);
	}
	(void)putchar('\n');
}

/* Prints the headings of these forms. */
static void put_headings(struct cm_emit *emit)
{
	const enum cm_form form = emit->options->form;
	size_t i;

	if (emit->options->no_headings ||
	    (form != CM_FORM_CSV && form != CM_FORM_RAW && form != CM_FORM_TABLE))
		return;
	for (i = 0; i < emit->picked_count; i++) {
		const struct cm_column *column = &emit->column_set->columns[emit->picked[i]];

		if (form == CM_FORM_TABLE)
			(void)printf("%s%*s", i ? " " : "", pad(column), column->name);
		else
			(void)printf("%s%s", i ? (form == CM_FORM_CSV ? "," : " ") : "",
				     column->old_key ? column->old_key : column->key);
	}
	(void)putchar('\n');
}

static void put_live(struct cm_emit *emit, const struct cm_value *values)
{
	if (emit->screen ? emit->printed % emit->screen == 0 : emit->printed == 0)
		put_headings(emit);
	emit->printed++;
	put_line(emit, values);
	(void)fflush(stdout);
}

bool cm_emit_wants(const struct cm_emit *emit, size_t column)
{
	size_t i;

	if (emit->sort == column || cm_where_wants(emit->where, column))
		return true;
	for (i = 0; i < emit->picked_count; i++)
		if (emit->picked[i] == column)
			return true;
	return false;
}

int cm_emit_open(const struct cm_column_set *column_set, const struct cm_options *options,
		 struct cm_emit **ret_emit, int *ret_exit)
{
	struct cm_emit *emit;
	int err = 0;

	if (options->columns && !strcmp(options->columns, "help")) {
		cm_column_set_list(column_set);
		*ret_exit = CM_EXIT_OK;
		return -1;
	}
	emit = calloc(1, sizeof(*emit));
	if (!emit) {
		*ret_exit = cm_fail_memory();
		return -1;
	}
	emit->column_set = column_set;
	emit->options = options;
	emit->sort = column_set->count;
	if (column_set->live && options->form == CM_FORM_TABLE)
		emit->screen = screen_lines();
	err = pick_columns(emit, options->columns);
	if (!err && options->sort)
		err = cm_column_set_find(column_set, options->sort, &emit->sort);
	if (!err && options->where)
		err = cm_where_parse(column_set, "where", options->where, &emit->where);
	if (err) {
		free(emit);
		*ret_exit = err;
		return -1;
	}
	if (column_set->live && options->form == CM_FORM_TABLE)
		cm_emit_fit(emit);
	*ret_emit = emit;
	return 0;
}

static bool keep_row(struct cm_emit *emit, const struct cm_value *values)
{
	const size_t count = emit->column_set->count;
	struct cm_value *kept;
	size_t i;

	if (!cm_reserve(&emit->values, &emit->room, (emit->rows + 1) * count))
		return false;
	kept = &emit->values[emit->rows * count];
	for (i = 0; i < count; i++) {
		kept[i] = values[i];
		if (values[i].kind == CM_VALUE_TEXT)
			kept[i].text = strdup(values[i].text);
		if (values[i].kind == CM_VALUE_TEXT && !kept[i].text)
			kept[i].kind = CM_VALUE_NONE;
	}
	emit->rows++;
	return true;
}

void cm_emit_row(struct cm_emit *emit, const struct cm_value *values)
{
	if (!cm_where_holds(emit->where, values))
		return;
	emit->matched++;
	if (emit->column_set->live)
		put_live(emit, values);
	else if (!keep_row(emit, values))
		cm_complain("not enough memory on the host for all rows");
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct cm_emit *emit = arg;
	const struct cm_value *x = (const struct cm_value *)a + emit->sort;
	const struct cm_value *y = (const struct cm_value *)b + emit->sort;
	int order;

	/* Missing values come first. */
	if (x->kind != y->kind)
		order = x->kind < y->kind ? -1 : 1;
	else if (x->kind == CM_VALUE_TEXT)
		order = strcmp(x->text, y->text);
	else if (x->kind == CM_VALUE_REAL)
		order = x->real < y->real ? -1 : x->real > y->real;
	else
		order = x->number < y->number ? -1 : x->number > y->number;
	return emit->options->reverse ? -order : order;
}

static void sort_rows(struct cm_emit *emit)
{
	const size_t row_bytes = emit->column_set->count * sizeof(*emit->values);

	if (emit->sort < emit->column_set->count && emit->rows)
		qsort_r(emit->values, emit->rows, row_bytes, compare, emit);
}

static void put_document(struct cm_emit *emit)
{
	char text[CM_TIME_TEXT];
	struct cm_json json;
	size_t row;

	cm_json_init(&json, stdout);
	cm_json_object(&json, NULL);
	(void)snprintf(text, sizeof(text), CM_PROGRAM "/%s/1", emit->column_set->schema);
	cm_json_text(&json, "schema", text);
	cm_json_array(&json, emit->column_set->rows);
	for (row = 0; row < emit->rows; row++)
		put_json_row(emit, &json, &emit->values[row * emit->column_set->count]);
	cm_json_end(&json);
	cm_json_end(&json);
}

/* Drops the rows after the first --top. */
static void cut_rows(struct cm_emit *emit)
{
	const size_t count = emit->column_set->count;
	size_t i, top = emit->options->top;

	if (!top || emit->rows <= top)
		return;
	for (i = top * count; i < emit->rows * count; i++)
		if (emit->values[i].kind == CM_VALUE_TEXT)
			free((char *)emit->values[i].text);
	emit->rows = top;
}

static void put_kept(struct cm_emit *emit)
{
	size_t row;

	sort_rows(emit);
	cut_rows(emit);
	if (is_json_document(emit)) {
		put_document(emit);
	} else if (emit->options->form == CM_FORM_TABLE) {
		if (emit->rows)
			cm_emit_put_table(emit);
	} else {
		put_headings(emit);
		for (row = 0; row < emit->rows; row++)
			put_line(emit, &emit->values[row * emit->column_set->count]);
	}
}

void cm_emit_left_out(struct cm_emit *emit)
{
	emit->left_out = true;
}

size_t cm_emit_matched(const struct cm_emit *emit)
{
	return emit->matched;
}

int cm_emit_complain_unmatched(const struct cm_options *options)
{
	if (options->where)
		return cm_fail(CM_EXIT_NO, "no line matches '%s'", options->where);
	return cm_fail(CM_EXIT_USAGE, "no process has memory on the devices named");
}

int cm_emit_close(struct cm_emit *emit, int exit)
{
	size_t i;

	if (!emit)
		return exit;
	if (!emit->column_set->live)
		put_kept(emit);
	for (i = 0; i < emit->rows * emit->column_set->count; i++)
		if (emit->values[i].kind == CM_VALUE_TEXT)
			free((char *)emit->values[i].text);
	if (!exit && !emit->matched &&
	    (emit->options->where || (emit->options->device_count && !emit->left_out)))
		exit = cm_emit_complain_unmatched(emit->options);
	cm_where_free(emit->where);
	free(emit->values);
	free(emit);
	return exit;
}
