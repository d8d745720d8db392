/* SPDX-License-Identifier: MIT */
/*
 * The segments of a device drawn block by block.
 */
#ifndef CM_TOOLS_OUTPUT_MAP_H
#define CM_TOOLS_OUTPUT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/reader.h"

/* Prints the map of a device row: its largest segments, or all of them. */
void cm_map_print(struct cm_reader *reader, uint32_t device, bool all);

#endif
