/* SPDX-License-Identifier: MIT */
#include "allocator/reclaim/exchange.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/report.h"
#include "allocator/state/rows.h"
#include "allocator/state/state.h"
#include "stats/counters.h"
#include "stats/summary.h"

/* Less than such a part of a new segment is not waited for. */
#define LEAST_SHARE 8

/* Wholly free segments, the largest first. */
struct outgrown {
	uint32_t segment[CM_EXCHANGE_MAX];
	uint32_t segments;
};

static void note_outgrown(const struct cm_cache *cache, struct outgrown *outgrown, uint32_t s)
{
	const uint64_t size = cache->segment[s].size;
	uint32_t at = outgrown->segments;

	if (at == CM_EXCHANGE_MAX && cache->segment[outgrown->segment[--at]].size >= size)
		return;
	for (; at && cache->segment[outgrown->segment[at - 1]].size < size; at--)
		outgrown->segment[at] = outgrown->segment[at - 1];
	outgrown->segment[at] = s;
	outgrown->segments += outgrown->segments < CM_EXCHANGE_MAX;
}

/* The heap's idle segments that are smaller than one of `bytes`. */
static void list_smaller_locked(struct cm_heap *heap, uint64_t bytes, struct outgrown *outgrown)
{
	struct cm_cache *cache = heap->cache;
	const uint32_t end = cm_rows_segments(cache);
	uint32_t s;

	for (s = 1; s < end; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (cm_release_can(heap->device, segment) && segment->heap == heap->index &&
		    !(segment->flags & CM_SEGMENT_SMALL) && segment->size < bytes)
			note_outgrown(cache, outgrown, s);
	}
}

/* Leaves the smallest one that is `need` bytes, else the largest and so on for the rest. Their
 * bytes. */
static uint64_t choose_outgrown(const struct cm_cache *cache, uint64_t need,
				struct outgrown *outgrown)
{
	uint32_t *segment = outgrown->segment, n = 0, at, last;
	uint64_t bytes = 0;

	for (; n < outgrown->segments && bytes < need; n++) {
		for (at = last = n; at < outgrown->segments; at++)
			if (cache->segment[segment[at]].size >= need - bytes)
				last = at;
		segment[n] = segment[last]; /* those in between are too much */
		bytes += cache->segment[segment[n]].size;
	}
	outgrown->segments = n;
	return bytes;
}

/* What is to go before `bytes` more are reserved; false: nothing, or less than is worth it. */
static bool find_outgrown_locked(struct cm_heap *heap, uint64_t bytes,
				 struct outgrown *ret_outgrown)
{
	struct cm_device *device = heap->device;
	const uint64_t reserved = cm_device_reserved_locked(device);

	ret_outgrown->segments = 0;
	if (!cm_heap_ctx(heap) || reserved + bytes <= device->most_reserved)
		return false;
	/* A program that only grows is spared the walk over all its segments. */
	if (cm_summary_pool(device->row, CM_POOL_LARGE).releasable < (int64_t)(bytes / LEAST_SHARE))
		return false;
	list_smaller_locked(heap, bytes, ret_outgrown);
	return choose_outgrown(heap->cache, reserved + bytes - device->most_reserved,
			       ret_outgrown) >= bytes / LEAST_SHARE &&
	       ret_outgrown->segments;
}

static bool has_outgrown(struct cm_heap *heap, uint64_t bytes)
{
	struct outgrown outgrown;

	return CM_WITH_LOCK(&heap->device->lock, find_outgrown_locked(heap, bytes, &outgrown));
}

/* Takes them out of the tables; how many. */
static uint32_t take_outgrown(struct cm_heap *heap, uint64_t bytes,
			      struct cm_pending_release *piece)
{
	struct outgrown outgrown;
	uint32_t i;

	cm_lock_acquire(&heap->device->lock);
	if (!find_outgrown_locked(heap, bytes, &outgrown))
		outgrown.segments = 0;
	for (i = 0; i < outgrown.segments; i++)
		cm_release_take_locked(heap->device, outgrown.segment[i], &piece[i]);
	cm_lock_release(&heap->device->lock);
	return outgrown.segments;
}

/* The reclaim lock is held. -EBUSY: outside of the gate. */
static int exchange(struct cm_heap *heap, uint64_t bytes)
{
	struct cm_device *device = heap->device;
	struct cm_pending_release *piece = device->exchanged;
	uint64_t given = 0;
	uint32_t i, n = 0;
	int err = -ENOENT;

	if (has_outgrown(heap, bytes))
		err = cm_epoch_quiesces(device, CM_PATIENCE_NS);
	if (!err)
		n = take_outgrown(heap, bytes, piece);
	for (i = 0; i < n; i++) {
		(void)cm_release_give(&piece[i]);
		given += piece[i].size;
	}
	if (given)
		cm_device_count(device, CM_SCALAR_exchange_bytes, (int64_t)given);
	return err == -EBUSY ? err : 0;
}

int cm_exchange(struct cm_heap *heap, uint64_t bytes)
{
	struct cm_cache *cache = heap->cache;
	int err;

	/* An old driver can only be waited for without a limit. */
	if (!cache->plain || !cache->policy.exchange || !cm_epoch_can_ask(cache) ||
	    !cm_lock_try(&heap->device->reclaim_lock))
		return 0;
	err = exchange(heap, bytes);
	cm_lock_release(&heap->device->reclaim_lock);
	return err;
}
