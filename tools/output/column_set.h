/* SPDX-License-Identifier: MIT */
/*
 * The columns of one verb, the values of a row, and the search for a column by name.
 */
#ifndef CM_TOOLS_OUTPUT_COLUMN_SET_H
#define CM_TOOLS_OUTPUT_COLUMN_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CM_COLUMNS_MAX 64

struct cm_column {
	const char *name;
	const char *key; /* "": not printed, only named in conditions */
	unsigned usual;  /* 0: printed only with -o; else printed without, see cm_emit_open() */
	enum {
		CM_ALIGN_LEFT,
		CM_ALIGN_RIGHT,
		CM_ALIGN_CUT,  /* left, cut at the edge of the terminal */
		CM_ALIGN_WRAP, /* left, wrapped between words at the edge of the terminal */
	} align;
	int width; /* in a table that is printed line by line */
	const char *help;
	/*
	 * Names of an earlier release; NULL: none. The old name is accepted. The old key stands
	 * beside the new one in JSON, NDJSON and pairs, and in its place in the headings of CSV and
	 * raw columns, where one more column would move the others.
	 */
	const char *old_name;
	const char *old_key;
};

struct cm_column_set {
	const char *schema; /* "ls": the JSON says "cudamemstat/ls/1" */
	const char *rows;   /* JSON's name of the array */
	const struct cm_column *columns;
	size_t count;
	bool live; /* rows are printed as they come, JSON as NDJSON; nothing is sorted */
};

enum cm_value_kind {
	CM_VALUE_NONE,
	CM_VALUE_TEXT,
	CM_VALUE_BYTES,
	CM_VALUE_NUMBER,
	CM_VALUE_REAL, /* one decimal for people */
};

struct cm_value {
	enum cm_value_kind kind;
	bool alarming; /* red if colours are on */
	const char *text;
	int64_t number;
	double real;
};

static inline struct cm_value cm_value_text(const char *text)
{
	return (struct cm_value){.kind = CM_VALUE_TEXT, .text = text};
}

static inline struct cm_value cm_value_bytes(int64_t bytes)
{
	return (struct cm_value){.kind = CM_VALUE_BYTES, .number = bytes};
}

static inline struct cm_value cm_value_number(int64_t number)
{
	return (struct cm_value){.kind = CM_VALUE_NUMBER, .number = number};
}

static inline struct cm_value cm_value_real(double real)
{
	return (struct cm_value){.kind = CM_VALUE_REAL, .real = real};
}

/* Prints the columns, for -o help. */
void cm_column_set_list(const struct cm_column_set *column_set);

/* Finds a column by its name, or its old name, in any case. 0, or an exit code after a
 * complaint. */
int cm_column_set_find(const struct cm_column_set *column_set, const char *name,
		       size_t *ret_column);

#endif
