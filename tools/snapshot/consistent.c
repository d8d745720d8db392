/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/consistent.h"

#include <string.h>

#include "stats/counters.h"

/* The sums that are compared. Unsigned: the rows are foreign data, and their sums may wrap. */
struct sums {
	uint64_t segments;
	uint64_t reserved;
	uint64_t live;
	uint64_t allocated;
	uint64_t in_use; /* live or pending */
	uint64_t active;
};

static struct sums sum_rows(const struct cm_snapshot *snapshot, const struct cm_snap_device *device)
{
	const struct cm_snap_segment *segment;
	struct sums sums = {0};
	size_t s, b;

	for (s = 0; s < device->segments; s++) {
		segment = &snapshot->segment[device->first_segment + s];
		if (segment->row->flags & CM_SEGMENT_REGISTERED)
			continue; /* memory that the program registered has counters of its own */
		sums.segments++;
		sums.reserved += segment->row->size;
		sums.allocated += segment->allocated;
		sums.active += segment->active;
		for (b = segment->first; b < segment->first + segment->count; b++) {
			sums.live += snapshot->block[b].state == CM_BLOCK_LIVE;
			sums.in_use += snapshot->block[b].state != CM_BLOCK_FREE;
		}
	}
	return sums;
}

static struct sums read_counters(const struct cm_device_row *row)
{
	return (struct sums){
		.segments = (uint64_t)cm_stat_current(row, CM_STAT_SEGMENT),
		.reserved = (uint64_t)cm_stat_current(row, CM_STAT_RESERVED_BYTES),
		.live = (uint64_t)cm_stat_current(row, CM_STAT_ALLOCATION),
		.allocated = (uint64_t)cm_stat_current(row, CM_STAT_ALLOCATED_BYTES),
		.in_use = (uint64_t)cm_stat_current(row, CM_STAT_ACTIVE),
		.active = (uint64_t)cm_stat_current(row, CM_STAT_ACTIVE_BYTES),
	};
}

static struct sums read_host_counters(const struct cm_host_row *row)
{
	return (struct sums){
		.segments = (uint64_t)row->segment.current,
		.reserved = (uint64_t)row->reserved_bytes.current,
		.live = (uint64_t)row->allocated.current,
		.allocated = (uint64_t)row->allocated_bytes.current,
		.in_use = (uint64_t)row->active.current,
		.active = (uint64_t)row->active_bytes.current,
	};
}

bool cm_snapshot_is_consistent(const struct cm_snapshot *snapshot)
{
	const struct cm_snap_device *device;
	struct sums rows, counters;
	size_t i;

	for (i = 0; i < snapshot->devices; i++) {
		device = &snapshot->device[i];
		rows = sum_rows(snapshot, device);
		counters = device->row ? read_counters(device->row)
				       : read_host_counters(&snapshot->image->header.host);
		if (memcmp(&rows, &counters, sizeof(rows)))
			return false;
	}
	return !snapshot->broken_segments;
}
