/* SPDX-License-Identifier: MIT */
#include "tools/exporter/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/reserve.h"

struct cm_row *cm_rows_add(struct cm_rows *rows)
{
	struct cm_row *item;
	size_t i;

	if (!cm_reserve(&rows->item, &rows->room, rows->count + 1))
		return NULL;
	item = &rows->item[rows->count++];
	memset(item, 0, sizeof(*item));
	for (i = 0; i < CM_METRIC_COUNT; i++)
		item->value[i] = NAN;
	return item;
}

void cm_rows_fini(struct cm_rows *rows)
{
	free(rows->item);
	memset(rows, 0, sizeof(*rows));
}

static int by_labels(const void *a, const void *b)
{
	const struct cm_row *x = a, *y = b;
	const int order = strverscmp(x->group, y->group);

	return order ? order : strcmp(x->gpu, y->gpu);
}

static int by_weight(const void *a, const void *b)
{
	const struct cm_row *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return by_labels(a, b);
}

static double join_values(enum cm_metric_join join, double a, double b)
{
	if (!(a >= 0))
		return b;
	if (!(b >= 0))
		return a;
	return join == CM_JOIN_SUM ? a + b : fmax(a, b);
}

static void join_rows(struct cm_row *to, const struct cm_row *from)
{
	size_t i;

	for (i = 0; i < CM_METRIC_COUNT; i++)
		to->value[i] = join_values(cm_metrics[i].join, to->value[i], from->value[i]);
	to->weight += from->weight;
	if (to->created <= 0 || (from->created > 0 && from->created < to->created))
		to->created = from->created;
}

void cm_rows_join(struct cm_rows *rows)
{
	size_t i, kept = 0;

	if (!rows->count)
		return;
	qsort(rows->item, rows->count, sizeof(*rows->item), by_labels);
	for (i = 1; i < rows->count; i++) {
		if (by_labels(&rows->item[kept], &rows->item[i]))
			rows->item[++kept] = rows->item[i];
		else
			join_rows(&rows->item[kept], &rows->item[i]);
	}
	rows->count = kept + 1;
}

/* Gives the rows after the first `max` the group "other". If there are more GPUs than can be real,
 * the rest become one. */
static void rename_others(struct cm_rows *rows, size_t max)
{
	char known[CM_DEVICES_MAX][CM_UUID_TEXT];
	size_t i, gpu, gpus = 0;

	for (i = max; i < rows->count; i++) {
		struct cm_row *row = &rows->item[i];

		row->other = true;
		(void)snprintf(row->group, sizeof(row->group), "%s", CM_GROUP_OTHER);
		for (gpu = 0; gpu < gpus && strcmp(known[gpu], row->gpu) != 0;)
			gpu++;
		if (gpu < gpus)
			continue;
		if (gpus < CM_DEVICES_MAX)
			memcpy(known[gpus++], row->gpu, CM_UUID_TEXT);
		else
			(void)snprintf(row->gpu, sizeof(row->gpu), "%s", CM_GROUP_OTHER);
	}
}

size_t cm_rows_cap(struct cm_rows *rows, size_t max)
{
	const size_t lost = rows->count > max ? rows->count - max : 0;

	if (!lost)
		return 0;
	qsort(rows->item, rows->count, sizeof(*rows->item), by_weight);
	rename_others(rows, max);
	cm_rows_join(rows);
	return lost;
}
