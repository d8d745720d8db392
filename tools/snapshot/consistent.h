/* SPDX-License-Identifier: MIT */
/*
 * Whether a snapshot's rows and its books tell the same sums. A change writes rows first and then
 * the books, and only these with an odd sequence number: a process that stopped in between looks
 * quiet to whoever watches the numbers alone.
 */
#ifndef CM_TOOLS_SNAPSHOT_CONSISTENT_H
#define CM_TOOLS_SNAPSHOT_CONSISTENT_H

#include <stdbool.h>

#include "tools/snapshot/snapshot.h"

/* False: a segment was left out, or the blocks and segments of a device, or of pinned memory, are
 * not as many or as large as its books say. */
bool cm_snapshot_is_consistent(const struct cm_snapshot *snapshot);

#endif
