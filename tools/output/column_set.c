/* SPDX-License-Identifier: MIT */
#include "tools/output/column_set.h"

#include <stdio.h>
#include <string.h>

#include "tools/cli/exits.h"
#include "tools/cli/options.h"
#include "tools/cli/width.h"

#define NAME_BYTES 64

/* Columns without keys are never printed: conditions alone name them. */
static void list_for_conditions(const struct cm_column_set *column_set)
{
	size_t i;

	for (i = 0; i < column_set->count; i++)
		cm_line(stdout, "            ", "%-11s %s", column_set->columns[i].name,
			column_set->columns[i].help);
	(void)putchar('\n');
	cm_line(stdout, "", "Conditions may name these columns.");
}

void cm_column_set_list(const struct cm_column_set *column_set)
{
	size_t i;

	if (!*column_set->columns[0].key) {
		list_for_conditions(column_set);
		return;
	}
	for (i = 0; i < column_set->count; i++)
		cm_line(stdout, "             ", "%c %-10s %-24s %s",
			column_set->columns[i].usual ? '*' : ' ', column_set->columns[i].name,
			column_set->columns[i].key, column_set->columns[i].help);
	(void)putchar('\n');
	cm_line(stdout, "",
		"Columns marked * are printed without -o, as many as the terminal has room for. "
		"The second name is the key in JSON, CSV, pairs and raw columns.");
	for (i = 0; i < column_set->count; i++)
		if (column_set->columns[i].old_key)
			cm_line(stdout, "", "In CSV and raw columns the key of %s is %s.",
				column_set->columns[i].name, column_set->columns[i].old_key);
}

int cm_column_set_find(const struct cm_column_set *column_set, const char *name, size_t *ret_column)
{
	const char *names[CM_COLUMNS_MAX];
	char upper[NAME_BYTES];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(upper); i++)
		upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
	upper[i] = '\0';
	for (i = 0; i < column_set->count; i++) {
		const char *old_name = column_set->columns[i].old_name;

		names[i] = column_set->columns[i].name;
		if (!strcmp(names[i], upper) || (old_name && !strcmp(old_name, upper))) {
			*ret_column = i;
			return 0;
		}
	}
	return cm_fail_unknown("column", "", name, names, column_set->count,
			       "; see '%s %s -o help'", CM_PROGRAM, column_set->schema);
}
