/* SPDX-License-Identifier: MIT */
/*
 * One device of a process in a recording, as the changes since the sample before (delta.h).
 *
 * A state is the figures that come and go together with the allocations of a program. Programs
 * that repeat their steps come back to states: a device keeps those it had, each once, in a ring.
 *
 * What is read is foreign data; a reader that finds nonsense becomes `bad`. Pure.
 */
#ifndef CM_TOOLS_WATCH_DELTA_DEVICE_H
#define CM_TOOLS_WATCH_DELTA_DEVICE_H

#include "tools/processes/collect.h"
#include "tools/watch/bytes.h"
#include "tools/watch/figures.h"

#define CM_DELTA_PAST_MAX 64u

/* The figures of a state stand one behind the other. */
#define CM_DELTA_STATE_FIRST CM_FIGURE_ALLOCATED
#define CM_DELTA_STATE_COUNT (CM_FIGURE_RELEASABLE - CM_FIGURE_ALLOCATED + 1)

struct cm_delta_device {
	uint32_t index;
	uint32_t flags;
	int32_t ordinal;
	uint8_t uuid[16];
	char name[64];
	uint64_t total_bytes;
	int64_t figure[CM_FIGURE_COUNT];
	int64_t past[CM_DELTA_PAST_MAX][CM_DELTA_STATE_COUNT];
	uint32_t pasts; /* ever added */
};

/* What does not change in the life of a process: takes it from a sample, compares it with that of a
 * sample, writes and reads it. */
void cm_delta_device_fill(struct cm_delta_device *device, const struct cm_device_view *view);
bool cm_delta_device_is(const struct cm_delta_device *device, const struct cm_device_view *view);
void cm_delta_device_write(const struct cm_delta_device *device, struct cm_bytes *bytes);
void cm_delta_device_read(struct cm_bytes_reader *from, struct cm_delta_device *device);

/* Whether a figure differs from that of the sample. */
bool cm_delta_device_has_changed(const struct cm_delta_device *device,
				 const struct cm_device_view *view);
/* Writes what has changed; the device then has the figures of the sample. */
void cm_delta_device_write_changes(struct cm_delta_device *device,
				   const struct cm_device_view *view, struct cm_bytes *bytes);
/* `figures`: how many a device has in the recording, at most 63. */
void cm_delta_device_read_changes(struct cm_delta_device *device, uint32_t figures,
				  struct cm_bytes_reader *from);

/* Which of these numbers, at most 63, have changed: a bit for each. */
uint64_t cm_changes_find(const int64_t *last, const int64_t *now, size_t count);
/* Writes the changes, and copies `now` to `last`. */
void cm_changes_write(int64_t *last, const int64_t *now, size_t count, struct cm_bytes *bytes);
/* Reads the changes of the `count` numbers whose bit is set, and applies those of the first `known`
 * ones to `last`. */
void cm_changes_read(struct cm_bytes_reader *from, uint64_t mask, int64_t *last, size_t known,
		     size_t count);

#endif
