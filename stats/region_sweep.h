/* SPDX-License-Identifier: MIT */
/*
 * Removes regions whose processes have ended. Blocks for system calls on the folder alone; several
 * processes and threads may sweep at once.
 */
#ifndef CM_STATS_REGION_SWEEP_H
#define CM_STATS_REGION_SWEEP_H

#include <stdint.h>

/* Which regions of ended processes stay as flight records. Their age counts from the sweep that
 * first found the process gone. */
struct cm_region_keep {
	uint64_t ns;    /* those of this age */
	uint32_t least; /* but this many of the youngest at any age */
	uint32_t most;  /* and no more than this many */
	uint32_t share; /* nor, beyond the youngest, than a share-th of the file system; 0: any */
};

/*
 * Removes this user's regions in `dir` whose process has ended, but for those to keep; NULL: none.
 * Reads at most 4096 directory entries. Returns how many were removed.
 */
int cm_region_sweep(const char *dir, const struct cm_region_keep *keep);

#endif
