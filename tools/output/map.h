/* SPDX-License-Identifier: MIT */
/*
 * Draws the segments of a device block by block, read from the tables of its region.
 */
#ifndef CM_TOOLS_OUTPUT_MAP_H
#define CM_TOOLS_OUTPUT_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/reader.h"

/* Prints the segments of a device, by the row of its first shard: the largest ones, or all. */
void cm_map_print(struct cm_reader *reader, uint32_t device, bool all);

#endif
