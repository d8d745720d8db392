/* SPDX-License-Identifier: MIT */
/*
 * Uncached device memory, which the program has from the driver directly, by kind: as a table and
 * as JSON.
 */
#ifndef CM_TOOLS_PROCESSES_UNCACHED_H
#define CM_TOOLS_PROCESSES_UNCACHED_H

#include "stats/layout.h"
#include "tools/cli/options.h"
#include "tools/output/json.h"

/* Prints a line for each kind of uncached memory that the program has or has had. */
void cm_uncached_print(const struct cm_options *options, const struct cm_device_row *row);

/* Adds bytes, peak and number of every kind to the open object. */
void cm_uncached_json(struct cm_json *json, const struct cm_device_row *row);

#endif
