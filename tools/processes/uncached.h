/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device that the program has from the driver past the cache, by kind: as a table for
 * people, and as JSON.
 */
#ifndef CM_TOOLS_PROCESSES_UNCACHED_H
#define CM_TOOLS_PROCESSES_UNCACHED_H

#include "stats/layout.h"
#include "tools/output/json.h"

/* A line for each kind that the program has or has had; nothing where it has had none. */
void cm_uncached_print(const struct cm_device_row *row);

/* Bytes, peak and pieces of every kind, into the open object. */
void cm_uncached_json(struct cm_json *json, const struct cm_device_row *row);

#endif
