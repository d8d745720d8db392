/* SPDX-License-Identifier: MIT */
/*
 * Sizes as sentences and reports print them: "12.50 MiB"; columns have "12.5M" (stats/units.h).
 * After cm_sizes_exact(), for -b, reports print "13107200 B".
 */
#ifndef CM_TOOLS_OUTPUT_SIZE_H
#define CM_TOOLS_OUTPUT_SIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/units.h"

/* For the whole process, before the first size is printed. */
void cm_sizes_exact(bool exact);

/* A size with two decimals, or exact. */
struct cm_units_text cm_size_format(int64_t bytes);
/* The width of a column of sizes, for printf's `*`. */
int cm_size_width(void);

#endif
