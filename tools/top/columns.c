/* SPDX-License-Identifier: MIT */
#include "tools/top/columns.h"

#include <stdio.h>
#include <string.h>

#include "tools/cli/exits.h"

#define NAME_BYTES   64
#define NUMBER_CELLS 7  /* "1023.9M", "-512.0M" or 9999999 */
#define EXACT_CELLS  13 /* 9 TB in bytes */

static const struct cm_column columns[CM_TOP_COLUMN_COUNT] = {
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) \
	CM_WATCH_COLUMN_ROW(ID, name, key, usual, ALIGN, help, NULL, NULL)
#define CM_RENAMED(...) CM_WATCH_COLUMN_ROW(__VA_ARGS__)
#include "tools/output/columns.def"
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) \
	[CM_TOP_COLUMN_##ID] = {name, key, usual, CM_ALIGN_##ALIGN, 0, help, NULL, NULL},
#include "tools/top/columns.def"
};

const struct cm_column_set cm_top_column_set = {"top", "rows", columns, CM_TOP_COLUMN_COUNT, true};

/* Texts; a number has the width of its name, or NUMBER_CELLS. */
static const struct {
	size_t column;
	int cells;
} widths[] = {
	{CM_WATCH_COLUMN_USER, 8},   {CM_WATCH_COLUMN_STATE, 7},    {CM_WATCH_COLUMN_GPU, 3},
	{CM_WATCH_COLUMN_OOM, 3},    {CM_WATCH_COLUMN_COMMAND, 0},  {CM_WATCH_COLUMN_COMM, 15},
	{CM_WATCH_COLUMN_MODEL, 24}, {CM_WATCH_COLUMN_UUID, 40},    {CM_WATCH_COLUMN_PCI, 12},
	{CM_WATCH_COLUMN_SMI, 3},    {CM_WATCH_COLUMN_VERSION, 10}, {CM_WATCH_COLUMN_REGION, 44},
	{CM_TOP_COLUMN_HISTORY, 12}, {CM_TOP_COLUMN_CONTAINER, 12}, {CM_TOP_COLUMN_POD, 36},
	{CM_TOP_COLUMN_JOB, 8},
};

int cm_top_column_width(size_t column, bool exact)
{
	const int name = (int)strlen(columns[column].name);
	const int number = exact && strstr(columns[column].key, "bytes") ? EXACT_CELLS
									 : NUMBER_CELLS;
	size_t i;

	for (i = 0; i < sizeof(widths) / sizeof(widths[0]); i++)
		if (widths[i].column == column)
			return widths[i].cells;
	return name > number ? name : number;
}

/* In this order. Each column appears on screens of at least this width. */
static const struct {
	uint8_t column;
	int from;
} usual[] = {
	{CM_WATCH_COLUMN_PID, 0},         {CM_WATCH_COLUMN_USER, 60},
	{CM_WATCH_COLUMN_STATE, 120},     {CM_WATCH_COLUMN_GPU, 0},
	{CM_WATCH_COLUMN_ALLOC, 0},       {CM_WATCH_COLUMN_RESERVED, 50},
	{CM_WATCH_COLUMN_FRAGMENTED, 95}, {CM_WATCH_COLUMN_PEAK, 140},
	{CM_TOP_COLUMN_GROWTH, 100},      {CM_TOP_COLUMN_ALLOC_RATE, 70},
	{CM_TOP_COLUMN_DRIVER_RATE, 110}, {CM_WATCH_COLUMN_OOM, 60},
	{CM_TOP_COLUMN_HISTORY, 70},      {CM_WATCH_COLUMN_COMMAND, 0},
};

size_t cm_top_columns_usual(int width, uint8_t *ret_columns)
{
	size_t i, n = 0;

	for (i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		if (width >= usual[i].from)
			ret_columns[n++] = usual[i].column;
	return n;
}

int cm_top_columns_parse(const char *list, uint8_t *ret_columns, size_t *ret_count, bool *ret_added)
{
	char name[NAME_BYTES];
	size_t n = 0, column, length;
	int exit;

	*ret_added = *list == '+';
	for (list += *ret_added; *list; list += length + (list[length] == ',')) {
		length = strcspn(list, ",");
		(void)snprintf(name, sizeof(name), "%.*s", (int)length, list);
		exit = cm_column_set_find(&cm_top_column_set, name, &column);
		if (exit)
			return exit;
		if (n == CM_COLUMNS_MAX)
			return cm_fail(CM_EXIT_USAGE, "more than %d columns", CM_COLUMNS_MAX);
		ret_columns[n++] = (uint8_t)column;
	}
	if (!n)
		return cm_fail(CM_EXIT_USAGE, "--output names no column");
	*ret_count = n;
	return CM_EXIT_OK;
}
