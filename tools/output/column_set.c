/* SPDX-License-Identifier: MIT */
#include "tools/output/column_set.h"

#include <stdio.h>
#include <string.h>

#include "stats/nearest.h"
#include "tools/cli/exits.h"
#include "tools/cli/options.h"

#define NAME_BYTES 64

void cm_sheet_list(const struct cm_sheet *sheet)
{
	size_t i;

	for (i = 0; i < sheet->count; i++)
		(void)printf("%c %-10s %-24s %s\n", sheet->columns[i].usual ? '*' : ' ',
			     sheet->columns[i].name, sheet->columns[i].key, sheet->columns[i].help);
	(void)printf("\nColumns marked * are printed without -o. The second name is the key in "
		     "JSON, CSV and pairs.\n");
}

int cm_sheet_find(const struct cm_sheet *sheet, const char *name, size_t *ret_column)
{
	const char *names[CM_COLUMNS_MAX], *nearest;
	char upper[NAME_BYTES];
	size_t i;

	for (i = 0; name[i] && i + 1 < sizeof(upper); i++)
		upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
	upper[i] = '\0';
	for (i = 0; i < sheet->count; i++) {
		names[i] = sheet->columns[i].name;
		if (!strcmp(names[i], upper)) {
			*ret_column = i;
			return 0;
		}
	}
	nearest = cm_nearest_name(upper, names, sheet->count);
	if (nearest)
		cm_complain("unknown column '%s' (did you mean %s?); see '%s %s -o help'", name,
			    nearest, CM_PROGRAM, sheet->schema);
	else
		cm_complain("unknown column '%s'; see '%s %s -o help'", name, CM_PROGRAM,
			    sheet->schema);
	return CM_EXIT_USAGE;
}
