/* SPDX-License-Identifier: MIT */
/*
 * Do the rows of a snapshot add up to its counters? A change writes the rows first, then the
 * counters, and only the latter under an odd sequence number. So the sequence numbers alone do not
 * show that a process has stopped in the middle of a change.
 */
#ifndef CM_TOOLS_SNAPSHOT_CONSISTENT_H
#define CM_TOOLS_SNAPSHOT_CONSISTENT_H

#include <stdbool.h>

#include "tools/snapshot/snapshot.h"

/* False: a segment was left out, or the number or size of the blocks and segments of a device,
 * or of pinned memory, differs from its counters. */
bool cm_snapshot_is_consistent(const struct cm_snapshot *snapshot);

#endif
