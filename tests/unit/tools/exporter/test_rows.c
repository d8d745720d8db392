/* SPDX-License-Identifier: MIT */
/* Rows of a group become one, counters of a group never fall, and there is a bound on rows. */
#include "tools/exporter/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"
#include "tools/exporter/ledger.h"

/* Of small whole numbers. */
#define assert_value(value, expected) assert_int_equal((int)(value), expected)

static struct cm_row *add(struct cm_rows *rows, const char *group, const char *gpu, pid_t pid,
			  double reserved, double ooms)
{
	struct cm_row *row = cm_rows_add(rows);

	assert_non_null(row);
	(void)snprintf(row->group, sizeof(row->group), "%s", group);
	(void)snprintf(row->gpu, sizeof(row->gpu), "%s", gpu);
	row->pid = pid;
	row->weight = reserved;
	row->value[CM_METRIC_RESERVED] = reserved;
	row->value[CM_METRIC_OOMS] = ooms;
	return row;
}

static const struct cm_row *find(const struct cm_rows *rows, const char *group, const char *gpu)
{
	const struct cm_row *found = NULL;
	size_t i;

	for (i = 0; i < rows->count; i++)
		if (!strcmp(rows->item[i].group, group) && !strcmp(rows->item[i].gpu, gpu)) {
			assert_null(found);
			found = &rows->item[i];
		}
	return found;
}

CM_TEST(rows_of_a_group_are_summed)
{
	struct cm_rows rows = {0};
	const struct cm_row *row;

	add(&rows, "a", "G", 1, 5, 1)->value[CM_METRIC_LARGEST] = 3;
	add(&rows, "b", "G", 2, 7, NAN);
	add(&rows, "a", "H", 1, 9, 0);
	add(&rows, "a", "G", 3, 6, NAN)->value[CM_METRIC_LARGEST] = 4;
	cm_rows_join(&rows);
	assert_int_equal(rows.count, 3);
	row = find(&rows, "a", "G");
	assert_value(row->value[CM_METRIC_RESERVED], 11);
	assert_value(row->value[CM_METRIC_OOMS], 1);
	assert_value(row->value[CM_METRIC_LARGEST], 4); /* the largest, no sum */
	assert_true(isnan(find(&rows, "b", "G")->value[CM_METRIC_OOMS]));
	cm_rows_fini(&rows);
}

CM_TEST(a_value_without_sense_spoils_no_sum)
{
	struct cm_rows rows = {0};

	add(&rows, "a", "G", 1, -9e18, NAN);
	add(&rows, "a", "G", 2, 5, 1);
	cm_rows_join(&rows);
	assert_value(rows.item[0].value[CM_METRIC_RESERVED], 5);
	cm_rows_fini(&rows);
}

CM_TEST(the_smallest_become_other)
{
	struct cm_rows rows = {0};
	char name[16];
	int i;

	for (i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		add(&rows, name, i % 2 ? "G" : "H", i, i, 0);
	}
	assert_int_equal(cm_rows_cap(&rows, 100), 0);
	assert_int_equal(cm_rows_cap(&rows, 90), 10);
	assert_int_equal(rows.count, 92);
	assert_non_null(find(&rows, "10", "H"));
	assert_null(find(&rows, "9", "G"));
	assert_value(find(&rows, "other", "G")->value[CM_METRIC_RESERVED], 1 + 3 + 5 + 7 + 9);
	assert_true(find(&rows, "other", "H")->other);
	cm_rows_fini(&rows);
}

CM_TEST(invented_gpus_are_bounded)
{
	struct cm_rows rows = {0};
	char name[16];
	int i;

	for (i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "%d", i);
		add(&rows, "x", name, 1, 1, 0);
	}
	assert_int_equal(cm_rows_cap(&rows, 10), 990);
	assert_int_equal(rows.count, 10 + CM_DEVICES_MAX + 1);
	assert_value(find(&rows, "other", "other")->value[CM_METRIC_RESERVED],
		     990 - CM_DEVICES_MAX);
	cm_rows_fini(&rows);
}

/* What the ledger makes of processes 1 and 2 of a group that have failed so often; below 0: it is
 * not there. */
static double join(struct cm_ledger *ledger, double first, double second)
{
	struct cm_rows rows = {0};
	const struct cm_row *row;
	double sum;

	if (first >= 0)
		add(&rows, "a", "G", 1, 5, first);
	if (second >= 0)
		add(&rows, "a", "G", 2, 5, second);
	add(&rows, "b", "G", 3, 1, 0);
	assert_int_equal(cm_ledger_join(ledger, &rows), 0);
	row = find(&rows, "a", "G");
	sum = row ? row->value[CM_METRIC_OOMS] : NAN;
	if (row) /* gauges are of those that are there */
		assert_value(row->value[CM_METRIC_RESERVED], 5 * ((first >= 0) + (second >= 0)));
	cm_rows_fini(&rows);
	return sum;
}

CM_TEST(counters_of_a_group_never_fall)
{
	struct cm_ledger ledger = {0};

	assert_value(join(&ledger, 3, 2), 5);
	assert_value(join(&ledger, -1, 2), 5); /* the first has ended */
	assert_value(join(&ledger, -1, 4), 7);
	assert_value(join(&ledger, 1, 4), 8); /* another of its number begins */
	assert_value(join(&ledger, 1, 0), 8); /* the second was set back */
	assert_value(join(&ledger, 1, 1), 9);
	assert_true(isnan(join(&ledger, -1, -1))); /* the group has ended, and is forgotten */
	assert_value(join(&ledger, 1, -1), 1);
	cm_ledger_fini(&ledger);
}
