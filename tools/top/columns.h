/* SPDX-License-Identifier: MIT */
/*
 * The columns of `top`: those of `ls`, rates, and where a process belongs.
 */
#ifndef CM_TOOLS_TOP_COLUMNS_H
#define CM_TOOLS_TOP_COLUMNS_H

#include "tools/watch/columns.h"

enum cm_top_column {
	CM_TOP_COLUMN_BEFORE = CM_WATCH_COLUMN_COUNT - 1,
#define CM_COLUMN(ID, name, key, usual, ALIGN, help) CM_TOP_COLUMN_##ID,
#include "tools/top/columns.def"
	CM_TOP_COLUMN_COUNT
};

extern const struct cm_column_set cm_top_column_set;

/* Cells of a column in the table; sizes are `exact` bytes or rounded. 0: what is left of the
 * line. */
int cm_top_column_width(size_t column, bool exact);

/* The columns for a screen of this width, if the user has named none. Returns their number, at most
 * CM_COLUMNS_MAX. */
size_t cm_top_columns_usual(int width, uint8_t *ret_columns);

/*
 * Reads -o: names with commas between, which replace the usual ones, or after a '+' add to them.
 * 0, or an exit code after a complaint. *ret_added: they are to be added.
 */
int cm_top_columns_parse(const char *list, uint8_t *ret_columns, size_t *ret_count,
			 bool *ret_added);

#endif
