/* SPDX-License-Identifier: MIT */
/*
 * What a snapshot says of a device in figures, and by stack: what the reports print.
 */
#ifndef CM_TOOLS_SNAPSHOT_FIGURES_H
#define CM_TOOLS_SNAPSHOT_FIGURES_H

#include <stdio.h>

#include "tools/snapshot/history.h"

/* In bytes where not said otherwise. The parts add up: reserved = in use + rounding + pending +
 * hard
 * + soft. */
struct cm_figures {
	uint64_t in_use;   /* asked for, in blocks handed out */
	uint64_t rounding; /* what the blocks are larger than that */
	uint64_t pending;  /* freed, the device may still use it */
	uint64_t hard;     /* free, in segments with blocks that are not: they stand between */
	uint64_t soft;     /* free, in segments that are wholly free */
	uint64_t reserved;
	uint64_t largest_free;
	uint64_t blocks; /* handed out */
	uint64_t segments;
};

void cm_figures_get(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		    struct cm_figures *ret_figures);

/*
 * A stack on one line: who called, where, and who called him, "forward model.cu:88 < step
 * solver.cu:31". Cut where `bytes` end. Returns `text`.
 */
char *cm_stack_line(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack,
		    char *text, size_t bytes);

#define CM_REMARKS_MAX 3

/* When a copy was taken, in what state the process was, and whether it is of one moment, where that
 * is worth a word. Returns how many there are. */
size_t cm_saved_remark(const struct cm_saved *saved, const char *ret_remarks[CM_REMARKS_MAX]);

/* "GPU 0  NVIDIA H200" or "pinned host memory". */
char *cm_device_title(const struct cm_snap_device *device, char *text, size_t bytes);

/* A size to two decimals in its unit, as the reports have it: "12.50 MiB". Returns `text`, which
 * has CM_UNITS_BYTES. */
char *cm_size_format(int64_t bytes, char *text);

#endif
