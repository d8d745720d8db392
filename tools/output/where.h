/* SPDX-License-Identifier: MIT */
/*
 * Conditions on the rows of a sheet, for --where and --until:
 *
 *   HELD > 4G && (USER == "alice" || COMMAND =~ "solver|train") && !(STATE == crashed)
 *
 * A column, by its name in any case; one of == != < <= > >=, or =~ and !~ with an extended regular
 * expression; a number with or without K, M, G, T or %, or a text, in quotes where it is no single
 * word. && binds closer than ||. A comparison with a value that is not there never holds.
 */
#ifndef CM_TOOLS_OUTPUT_WHERE_H
#define CM_TOOLS_OUTPUT_WHERE_H

#include "tools/output/column_set.h"

struct cm_where;

/* 0, or an exit code after a complaint that names `option`, and what was wanted where. */
int cm_where_parse(const struct cm_column_set *column_set, const char *option, const char *text,
		   struct cm_where **ret_where);
void cm_where_free(struct cm_where *where);

/* Whether it holds for a row: one value a column of the sheet, in its order. NULL always holds. */
bool cm_where_holds(const struct cm_where *where, const struct cm_value *values);

/* Whether it asks for the column. */
bool cm_where_wants(const struct cm_where *where, size_t column);

#endif
