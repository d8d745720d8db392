/* SPDX-License-Identifier: MIT */
/*
 * Conditions on rows, for --where and --until:
 *
 *   FRAGMENTED > 4G && (USER == "alice" || COMMAND =~ "solver|train") && !(STATE == crashed)
 *
 * A comparison is a column, by its name in any case; one of == != < <= > >=, or =~ and !~ with an
 * extended regular expression; and a number with or without K, M, G, T or %, or a text, in quotes
 * unless it is a single word. && binds more tightly than ||. A comparison with a missing value is
 * false.
 */
#ifndef CM_TOOLS_OUTPUT_WHERE_H
#define CM_TOOLS_OUTPUT_WHERE_H

#include "tools/output/column_set.h"

struct cm_where;

/* 0, or an exit code after a complaint that names `option`, the position and what is expected. */
int cm_where_parse(const struct cm_column_set *column_set, const char *option, const char *text,
		   struct cm_where **ret_where);
void cm_where_free(struct cm_where *where);

/* Does the condition hold for a row, which has one value per column of the set? NULL: always. */
bool cm_where_holds(const struct cm_where *where, const struct cm_value *values);

/* Does the condition refer to the column? */
bool cm_where_wants(const struct cm_where *where, size_t column);

#endif
