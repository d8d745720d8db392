/* SPDX-License-Identifier: MIT */
#include "allocator/blocks/poll_policy.h"

#include "allocator/state/limit.h"
#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "allocator/state/shards.h"

/* docs/decisions/reuse.md ("Poll by the batch") has the measurements of other values. */
#define BATCH_SHARE 25                   /* a batch is 1/25 of what is reserved, */
#define BATCH_LEAST (UINT64_C(32) << 20) /* but at least this */
#define LOOKS       32u /* pending blocks that are read to find one that fits better */
/* A program may gather pending memory if it has reserved at most 1/GATHER_SHARE of what the card
 * has free beyond GATHER_REST, and its last GATHER_SIGNS polls were less than GATHER_GAP
 * requests apart. If the card has no room after all, it tries again after GATHER_PAUSE polls. */
#define GATHER_SHARE 128
#define GATHER_REST  (UINT64_C(6) << 30) /* for contexts, libraries and other processes */
#define GATHER_GAP   48u
#define GATHER_SIGNS 4
#define GATHER_PAUSE 1024

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
	const uint64_t reserved = cm_shards_reserved(device);
	const uint64_t total = cm_limit_bytes(device) ? 0 : device->first->row->total_bytes;

	return reserved < total ? share_of(total - reserved) : 0;
}

void cm_poll_policy_note_reserved_locked(struct cm_device *device)
{
	const uint64_t reserved = cm_device_reserved_locked(device);

	if (cm_shards_reserved(device) > room_of(device))
		device->gather_bytes = 0;
	device->batch_bytes = greater(reserved / BATCH_SHARE, device->gather_bytes);
	device->poll_bytes = greater(greater(reserved / BATCH_SHARE, BATCH_LEAST),
				     device->gather_bytes);
}

/* Whether a block of `least` to `most` bytes is pending and was not polled for, or too many are
 * pending to check each. */
static bool has_pending_between(const struct cm_heap *heap, uint64_t least, uint64_t most)
{
	const struct cm_block *block = heap->cache->block;
	uint32_t index = heap->epochs.open.list.first, looks;

	for (looks = 0; index && looks < LOOKS; index = block[index].link_next, looks++)
		if (block[index].size >= least && block[index].size <= most)
			return true;
	return index != 0;
}

bool cm_poll_policy_before_split_locked(const struct cm_heap *heap, uint64_t size, uint64_t most)
{
	if (heap->polled_bytes && !cm_poll_policy_has_paused(heap))
		return false;
	/* A batch whose event is recorded costs only the query. */
	return heap->row->pending_bytes > heap->epochs.open.bytes ||
	       has_pending_between(heap, size, most);
}

static uint32_t requests_since_poll(const struct cm_heap *heap)
{
	return cm_poll_policy_requests(heap) - heap->last_poll;
}

void cm_poll_policy_init_locked(struct cm_heap *heap)
{
	heap->last_poll = cm_poll_policy_requests(heap) - CM_POLL_PAUSE;
	heap->polled_bytes = 0;
	heap->quick_polls = 0;
}

void cm_poll_policy_note_poll_locked(struct cm_heap *heap)
{
	const uint32_t since = requests_since_poll(heap);

	heap->quick_polls = since < GATHER_GAP ? heap->quick_polls + 1 : 0;
	heap->last_poll += since;
}

static bool may_gather(const struct cm_heap *heap)
{
	const struct cm_device *device = heap->device;

	return heap->can & CM_CAN_CTX_EVENTS && heap->quick_polls >= GATHER_SIGNS &&
	       requests_since_poll(heap) < GATHER_GAP &&
	       cm_shards_reserved(device) < room_of(device) && !cm_paged_serves(heap);
}

bool cm_poll_policy_polls_locked(struct cm_heap *heap)
{
	if (may_gather(heap))
		return false;
	cm_poll_policy_note_poll_locked(heap);
	return true;
}

bool cm_poll_policy_gather_locked(struct cm_heap *heap, uint64_t segment_bytes, uint64_t free_bytes)
{
	struct cm_device *device = heap->device;
	const uint64_t waits = heap->row->pending_bytes;

	if (cm_shards_reserved(device) + segment_bytes > share_of(free_bytes)) {
		cm_poll_policy_note_poll_locked(heap);
		heap->quick_polls = -GATHER_PAUSE;
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
