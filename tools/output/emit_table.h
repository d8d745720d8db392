/* SPDX-License-Identifier: MIT */
/*
 * The emitter's state, and its tables for people. Only for emit.c.
 */
#ifndef CM_TOOLS_OUTPUT_EMIT_TABLE_H
#define CM_TOOLS_OUTPUT_EMIT_TABLE_H

#include "tools/output/emit.h"

#define CM_CELL_BYTES 64

struct cm_emit {
	const struct cm_column_set *column_set;
	const struct cm_options *options;
	size_t picked[CM_COLUMNS_MAX]; /* columns to print, in order */
	size_t picked_count;
	size_t usual_count; /* of these, the first: not asked for by name */
	size_t sort;        /* column_set->count: unsorted */
	struct cm_value *
		values; /* rows kept until the end, column_set->count values each; owns the texts */
	struct cm_where *where; /* NULL: all rows */
	size_t room;            /* values that there is memory for */
	size_t rows;
	size_t matched; /* rows that matched --where, printed or kept */
	bool left_out;  /* see cm_emit_left_out() */
	size_t printed;
	size_t screen; /* lines between two headings of a live table; 0: one heading */
};

/* A value as text: exact for programs and with --bytes, else abbreviated. In `cell`, or a
 * constant. */
const char *cm_emit_spell(const struct cm_emit *emit, const struct cm_value *value,
			  char cell[CM_CELL_BYTES]);

/* Leaves out columns until the table fits, see cm_emit_open(). */
void cm_emit_fit(struct cm_emit *emit);

/* Prints the rows that are kept, on a terminal within its width. */
void cm_emit_put_table(struct cm_emit *emit);

#endif
