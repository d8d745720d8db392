/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/whole.h"

#include "allocator/state/report.h"
#include "stats/counters.h"

/* docs/decisions/layout.md ("Large blocks are left whole") has what others measure. */
#define LARGE_SHARE 64 /* so much of the card is large */
#define ROOM_SHARE  2  /* less than so much of the card is reserved: it is roomy */

/* What the process can have of the card. */
static uint64_t card_bytes(const struct cm_device *device)
{
	const struct cm_device_row *row = device->row;

	return row->allowed_bytes && row->allowed_bytes < row->total_bytes ? row->allowed_bytes
									   : row->total_bytes;
}

void cm_whole_note_reserved_locked(struct cm_device *device)
{
	const uint64_t large = card_bytes(device) / LARGE_SHARE;
	const uint64_t set = device->cache->policy.large_segment_size;
	const uint64_t shared = set == CM_MADE_TO_MEASURE ? CM_MEDIUM_MAX : set;

	/* Segments for several blocks are there to be cut. */
	device->whole_bytes = large > shared ? large : shared;
}

bool cm_whole_keeps_locked(const struct cm_device *device, uint64_t size)
{
	const struct cm_device_row *row = device->row;
	const uint64_t used = (uint64_t)cm_stat_current(row, CM_STAT_ALLOCATED_BYTES);
	const uint64_t most = (uint64_t)row->stat[CM_POOL_ALL].peak[CM_STAT_ALLOCATED_BYTES];

	return used + size > most ||
	       cm_device_reserved_locked(device) > card_bytes(device) / ROOM_SHARE;
}
