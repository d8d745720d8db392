/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/poll_policy.h"

#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "stats/counters.h"

/* docs/decisions/reuse.md ("Poll by the batch") has what others measure. */
#define BATCH_SHARE  25 /* what is freed is closed and asked for by so much of what is reserved */
#define ASK_LEAST    (UINT64_C(32) << 20) /* small caches gather more than their share */
#define GROWTH_SHARE 16 /* so much more is reserved than when its shape was judged last: anew */
#define TURNS        20 /* so often is what is reserved freed until its shape is settled */
#define CUT_SHARE    32 /* a cut of so much of what is reserved is a large one */
#define LOOKS        32u

/* Begins anew when the program resets its counters: then the shape counts as settled. */
static uint64_t freed_bytes(const struct cm_device *device)
{
	const struct cm_stat_pool *stat = device->row->stat;

	return (uint64_t)stat[CM_POOL_SMALL].freed[CM_STAT_ALLOCATED_BYTES] +
	       (uint64_t)stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATED_BYTES];
}

void cm_poll_policy_note_reserved_locked(struct cm_device *device)
{
	const uint64_t reserved = cm_device_reserved_locked(device);

	device->batch_bytes = reserved / BATCH_SHARE;
	device->poll_bytes = device->batch_bytes > ASK_LEAST ? device->batch_bytes : ASK_LEAST;
	if (reserved <= device->shaped_bytes + device->shaped_bytes / GROWTH_SHARE)
		return;
	device->shaped_bytes = reserved;
	device->shaped_freed = freed_bytes(device);
}

uint64_t cm_poll_policy_turns_locked(const struct cm_device *device)
{
	const uint64_t reserved = cm_device_reserved_locked(device);

	return reserved ? (freed_bytes(device) - device->shaped_freed) / reserved : 0;
}

bool cm_poll_policy_has_pending_between_locked(const struct cm_heap *heap, uint64_t least,
					       uint64_t most)
{
	const struct cm_block *block = heap->cache->block;
	uint32_t index = heap->epochs.open.list.first, looks;

	for (looks = 0; index && looks < LOOKS; index = block[index].link_next, looks++)
		if (block[index].size >= least && block[index].size <= most)
			return true;
	return index != 0;
}

bool cm_poll_policy_before_cut_locked(const struct cm_heap *heap, uint64_t size, uint64_t most)
{
	const struct cm_device *device = heap->device;

	if (cm_paged_serves(heap))
		return true;
	if (cm_poll_policy_turns_locked(device) >= TURNS &&
	    (most - size) * CUT_SHARE < cm_device_reserved_locked(device))
		return false;
	/* What has its event costs the question alone. */
	return heap->row->pending_bytes > heap->epochs.open.bytes ||
	       cm_poll_policy_has_pending_between_locked(heap, size, most);
}
