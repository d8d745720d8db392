/* SPDX-License-Identifier: MIT */
/*
 * The data of a page: a description in JSON and columns of numbers, little endian, each at a
 * multiple of 8 bytes. A column stores (value - base) >> shift in the smallest of 1, 2 or 4 bytes
 * that holds all its values, so an address takes 4; if none does, values are doubles. The
 * description of a column is [name, type, first byte, count, base, 2^shift, whether differences
 * are stored].
 *
 * One thread; the errors of memory are reported at the end.
 */
#ifndef CM_TOOLS_PLOT_COLUMNS_H
#define CM_TOOLS_PLOT_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/output/json.h"

struct cm_columns {
	FILE *file; /* into `bytes` */
	char *bytes;
	size_t count;
	struct cm_json json; /* the description, into `text` */
	FILE *text_file;
	char *text;
	size_t text_count;
};

/* -ENOMEM; to be closed and freed all the same. */
int cm_columns_open(struct cm_columns *columns);
/* Nothing is added any more: `bytes` and `text` are complete. 0, or -ENOMEM: a buffer could not
 * grow. */
int cm_columns_close(struct cm_columns *columns);
void cm_columns_free(struct cm_columns *columns);

/* The value of row i. */
typedef uint64_t (*cm_value_fn)(const void *data, size_t i);

/* Adds a column to the array that is open in the description. */
void cm_columns_add(struct cm_columns *columns, const char *name, size_t count, cm_value_fn value,
		    const void *data);
/* The same for numbers that grow, of at most 32 bits: differences are stored, which pack well. */
void cm_columns_add_growing(struct cm_columns *columns, const char *name, size_t count,
			    cm_value_fn value, const void *data);

#endif
