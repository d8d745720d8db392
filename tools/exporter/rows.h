/* SPDX-License-Identifier: MIT */
/*
 * Rows of values, one for each label set. Joins the rows of several processes, and limits their
 * number. Pure.
 */
#ifndef CM_TOOLS_EXPORTER_ROWS_H
#define CM_TOOLS_EXPORTER_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "stats/layout.h"
#include "tools/exporter/metrics.h"
#include "tools/output/text.h"

#define CM_GROUP_TEXT 80
/* The group, or the GPU, of rows that have no series of their own. */
#define CM_GROUP_OTHER "other"

struct cm_row {
	char group[CM_GROUP_TEXT];
	char gpu[CM_UUID_TEXT]; /* "": the row is of a process */
	pid_t pid;
	uint64_t start; /* of the process, which tells it from another of its number */
	bool other;     /* sum of several: gauges alone, since its members change */
	double weight;  /* reserved bytes */
	double created; /* seconds since 1970, of the counters; 0: not known */
	double value[CM_METRIC_COUNT]; /* NAN, or below 0: absent */
};

struct cm_rows {
	struct cm_row *item;
	size_t count;
	size_t room; /* for items */
};

/* A new row at the end, all values absent. NULL: no memory. */
struct cm_row *cm_rows_add(struct cm_rows *rows);
void cm_rows_fini(struct cm_rows *rows);

/* Sorts by GPU and group, numbers in names by their value, and joins rows of one GPU and group. */
void cm_rows_join(struct cm_rows *rows);

/*
 * Keeps the `max` rows of the largest weight. The others are joined as CM_GROUP_OTHER, one row for
 * each of at most CM_DEVICES_MAX GPUs. Returns how many lost their own row.
 */
size_t cm_rows_cap(struct cm_rows *rows, size_t max);

#endif
