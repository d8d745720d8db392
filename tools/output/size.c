/* SPDX-License-Identifier: MIT */
#include "tools/output/size.h"

#include <stddef.h>
#include <stdio.h>

#define WIDTH       12 /* "-1023.99 EiB" */
#define WIDTH_EXACT 17 /* "999999999999999 B" */

static bool is_exact;

void cm_sizes_exact(bool exact)
{
	is_exact = exact;
}

int cm_size_width(void)
{
	return is_exact ? WIDTH_EXACT : WIDTH;
}

struct cm_units_text cm_size_format(int64_t bytes)
{
	static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double value = bytes < 0 ? -(double)bytes : (double)bytes;
	struct cm_units_text to;
	size_t unit = 0;

	if (is_exact) {
		(void)snprintf(to.text, sizeof(to.text), "%lld B", (long long)bytes);
		return to;
	}
	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	(void)snprintf(to.text, sizeof(to.text), "%s%.*f %s", bytes < 0 ? "-" : "", unit ? 2 : 0,
		       value, units[unit]);
	return to;
}
