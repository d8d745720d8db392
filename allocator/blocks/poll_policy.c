/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/poll_policy.h"

#include "allocator/state/limit.h"
#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "stats/counters.h"

/* docs/decisions/reuse.md ("Poll by the batch") has what others measure. */
#define BATCH_SHARE  25 /* what is freed is closed and asked for by so much of what is reserved */
#define ASK_LEAST    (UINT64_C(32) << 20) /* small caches gather more than their share */
#define GROWTH_SHARE 16 /* so much more is reserved than when its shape was judged last: anew */
#define TURNOVERS    20 /* so often is what is reserved freed until its shape is settled */
#define CUT_SHARE    32 /* a cut of so much of what is reserved is a large one */
#define LOOKS        32u
#define GATHER_SHARE 128 /* with so much reserved of what the card has free, more may wait */
#define GATHER_REST  (UINT64_C(6) << 30) /* but of this, which others than the allocator need */
#define GATHER_GAP   48u                 /* if the driver was asked so few requests ago, */
#define GATHER_SIGNS 4                   /* so often in a row */
#define GATHER_PAUSE 1024                /* questions, if other processes have the room */

/* Starts over when the program resets its counters: then the shape counts as settled. */
static uint64_t freed_bytes(const struct cm_device *device)
{
	const struct cm_stat_pool *stat = device->row->stat;

	return (uint64_t)stat[CM_POOL_SMALL].freed[CM_STAT_ALLOCATED_BYTES] +
	       (uint64_t)stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATED_BYTES];
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The most that a program may have reserved to count as small for a card with so much free. */
static uint64_t share_of(uint64_t free_bytes)
{
	return free_bytes > GATHER_REST ? (free_bytes - GATHER_REST) / GATHER_SHARE : 0;
}

/* The same by the total of the card. Zero under a cap: there every byte counts. */
static uint64_t room_of(const struct cm_device *device)
{
	const uint64_t reserved = cm_device_reserved_locked(device);
	const uint64_t total = cm_limit_bytes(device) ? 0 : device->row->total_bytes;

	return reserved < total ? share_of(total - reserved) : 0;
}

void cm_poll_policy_note_reserved_locked(struct cm_device *device)
{
	const uint64_t reserved = cm_device_reserved_locked(device);

	if (reserved > room_of(device))
		device->gather_bytes = 0;
	device->batch_bytes = greater(reserved / BATCH_SHARE, device->gather_bytes);
	device->poll_bytes = greater(greater(reserved / BATCH_SHARE, ASK_LEAST),
				     device->gather_bytes);
	if (reserved <= device->shaped_bytes + device->shaped_bytes / GROWTH_SHARE)
		return;
	device->shaped_bytes = reserved;
	device->shaped_freed = freed_bytes(device);
}

uint64_t cm_poll_policy_turnovers_locked(const struct cm_device *device)
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
	if (heap->row->pending_bytes < device->gather_bytes)
		return false;
	if (cm_poll_policy_turnovers_locked(device) >= TURNOVERS &&
	    (most - size) * CUT_SHARE < cm_device_reserved_locked(device))
		return false;
	/* A batch whose event is recorded costs only the query. */
	return heap->row->pending_bytes > heap->epochs.open.bytes ||
	       cm_poll_policy_has_pending_between_locked(heap, size, most);
}

static uint32_t requests_since_question(const struct cm_heap *heap)
{
	return heap->searches[CM_POOL_SMALL] + heap->searches[CM_POOL_LARGE] - heap->asked_at;
}

static void note_question(struct cm_heap *heap)
{
	const uint32_t since = requests_since_question(heap);

	heap->quick_questions = since < GATHER_GAP ? heap->quick_questions + 1 : 0;
	heap->asked_at += since;
}

static bool may_gather(const struct cm_heap *heap)
{
	const struct cm_device *device = heap->device;

	return heap->can & CM_CAN_CTX_EVENTS && heap->quick_questions >= GATHER_SIGNS &&
	       requests_since_question(heap) < GATHER_GAP &&
	       cm_device_reserved_locked(device) < room_of(device) && !cm_paged_serves(heap);
}

bool cm_poll_policy_asks_locked(struct cm_heap *heap)
{
	if (may_gather(heap))
		return false;
	note_question(heap);
	return true;
}

bool cm_poll_policy_gather_locked(struct cm_heap *heap, uint64_t segment_bytes, uint64_t free_bytes)
{
	struct cm_device *device = heap->device;
	const uint64_t waits = heap->row->pending_bytes;

	if (cm_device_reserved_locked(device) + segment_bytes > share_of(free_bytes)) {
		note_question(heap);
		heap->quick_questions = -GATHER_PAUSE;
		return false;
	}
	device->gather_bytes = waits + greater(segment_bytes, waits / 2);
	cm_poll_policy_note_reserved_locked(device);
	return true;
}

void cm_poll_policy_stop_gathering_locked(struct cm_device *device)
{
	if (!device->gather_bytes)
		return;
	device->gather_bytes = 0;
	cm_poll_policy_note_reserved_locked(device);
}
