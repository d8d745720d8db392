/* SPDX-License-Identifier: MIT */
/*
 * One emitter for everything that has rows and columns: a table for people, and JSON, NDJSON, CSV,
 * pairs and raw columns for programs, all from the same values. Machine forms carry exact numbers
 * under the columns' keys; a value that is not there is "-" for people, null or empty for programs.
 */
#ifndef CM_TOOLS_OUTPUT_EMIT_H
#define CM_TOOLS_OUTPUT_EMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/cli/options.h"
#include "tools/output/column_set.h"

struct cm_emit;

/*
 * 0, or -1 with *ret_exit: the columns were listed, or a name is unknown and a complaint made.
 * `sheet` and `options` must outlive the emitter.
 */
int cm_emit_open(const struct cm_column_set *column_set, const struct cm_options *options,
		 struct cm_emit **ret_emit, int *ret_exit);

/* Whether a column is wanted, by -o or --sort: what is costly to find out need not be otherwise. */
bool cm_emit_wants(const struct cm_emit *emit, size_t column);

/* One value a column of the sheet, in its order. Texts are copied. Dropped where --where does not
 * hold. */
void cm_emit_row(struct cm_emit *emit, const struct cm_value *values);

/* There is a row, of what -d names, that is not wanted. */
void cm_emit_left_out(struct cm_emit *emit);

/* Rows for which --where held. */
size_t cm_emit_matched(const struct cm_emit *emit);

/* Complains of what was chosen by --where or -d, and is nowhere; the exit code. */
int cm_emit_complain_unmatched(const struct cm_options *options);

/* Prints what is left and frees. `exit` is the exit code so far, and the result; CM_EXIT_NO after a
 * complaint where all had gone well and --where, or -d, has left no row. */
int cm_emit_close(struct cm_emit *emit, int exit);

#endif
