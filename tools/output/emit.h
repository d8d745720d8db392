/* SPDX-License-Identifier: MIT */
/*
 * The output of every verb that prints rows and columns: a table for people; JSON, NDJSON, CSV,
 * pairs and raw columns for programs. All forms come from the same values. The forms for programs
 * have exact numbers and the keys of the columns. A missing value is "-" for people, null or empty
 * for programs.
 */
#ifndef CM_TOOLS_OUTPUT_EMIT_H
#define CM_TOOLS_OUTPUT_EMIT_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/cli/options.h"
#include "tools/output/column_set.h"

struct cm_emit;

/*
 * 0, or -1 with *ret_exit: the columns were listed (-o help), or a complaint made. `column_set` and
 * `options` must outlive the emitter. A table that is too wide for the terminal loses columns that
 * -o does not name: first those that have no value but 0, then those of the highest `usual`, but
 * none with 1. In files and pipes there are 80 columns, unless -o or --noheadings is given; there
 * texts are never cut.
 */
int cm_emit_open(const struct cm_column_set *column_set, const struct cm_options *options,
		 struct cm_emit **ret_emit, int *ret_exit);

/* Is a column needed by -o, --sort or --where? If not, the caller need not compute its values. */
bool cm_emit_wants(const struct cm_emit *emit, size_t column);

/* Adds a row: one value per column of the set, in its order. Texts are copied. A row that does not
 * match --where is dropped. */
void cm_emit_row(struct cm_emit *emit, const struct cm_value *values);

/* Notes that a device of -d has a row which is deliberately not printed. */
void cm_emit_left_out(struct cm_emit *emit);

/* The number of rows that matched --where. */
size_t cm_emit_matched(const struct cm_emit *emit);

/* Complains that no row matches --where or -d. Returns the exit code. */
int cm_emit_complain_unmatched(const struct cm_options *options);

/* Prints the remaining rows and frees. Returns `exit`, the exit code so far; but CM_EXIT_NO,
 * after a complaint, if that is 0 and no row matched --where or -d. */
int cm_emit_close(struct cm_emit *emit, int exit);

#endif
