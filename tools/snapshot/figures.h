/* SPDX-License-Identifier: MIT */
/*
 * Figures and texts about a snapshot that the reports share.
 */
#ifndef CM_TOOLS_SNAPSHOT_FIGURES_H
#define CM_TOOLS_SNAPSHOT_FIGURES_H

#include <stdio.h>

#include "tools/snapshot/history.h"

/*
 * In bytes unless noted. The parts add up:
 * reserved = allocated + pending + fragmented + releasable;
 * allocated + pending = requested + rounding.
 */
struct cm_figures {
	uint64_t allocated;  /* live blocks */
	uint64_t requested;  /* by the program, in live and pending blocks */
	uint64_t rounding;   /* their sizes beyond that */
	uint64_t pending;    /* pending free: the device may still use it */
	uint64_t fragmented; /* free, in segments with live or pending blocks */
	uint64_t releasable; /* free, in segments that are wholly free */
	uint64_t reserved;
	uint64_t largest_free;
	uint64_t blocks; /* live */
	uint64_t segments;
};

void cm_figures_get(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		    struct cm_figures *ret_figures);

#define CM_REMARKS_MAX 3

/* Remarks on how the copy was taken: the reason, the state of the process, whether it is torn; only
 * what is unusual. Constant texts. Returns their number. */
size_t cm_saved_remark(const struct cm_saved *saved, const char *ret_remarks[CM_REMARKS_MAX]);

struct cm_device_text {
	char text[96];
};

/* "GPU 0  NVIDIA H200" or "pinned host memory". */
struct cm_device_text cm_device_title(const struct cm_snap_device *device);
/* "GPU 0" or "pinned memory". */
struct cm_device_text cm_device_short(const struct cm_snap_device *device);

#endif
