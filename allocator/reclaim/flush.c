/* SPDX-License-Identifier: MIT */
#include "allocator/reclaim/flush.h"

#include <assert.h>
#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/cache.h"
#include "allocator/paged/paged.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/report.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"

#define PASSES 8 /* over a device, while others end contexts */

/* The reclaim lock is held. */
static int flush_once(struct cm_device *device, uint64_t limit_ns, uint64_t *bytes)
{
	int err;

	/* No work can touch these, whatever is under way. */
	cm_paged_return_forgotten(device->cache);
	err = cm_release_await_suspended(device, limit_ns) ? 0 : -EBUSY;
	if (!err && cm_shards_have_cached(device))
		err = cm_epoch_quiesces(device, limit_ns);
	if (!err && !cm_epoch_wait_device(device, limit_ns))
		err = -EBUSY;
	if (!err)
		*bytes += cm_release_free(device);
	/* Waits for what other threads have taken out of the tables; the reclaim lock is not
	 * held. */
	if (!err && !cm_release_await_pending(device, limit_ns))
		err = -EBUSY;
	return err;
}

int cm_flush_device(struct cm_device *device, uint64_t limit_ns, uint64_t *bytes)
{
	assert(cm_device_is_first(device));
	const struct cm_cache *cache = device->cache;
	const uint64_t end = cache->ops->now_ns() + limit_ns;
	uint64_t suspensions;
	int err, passes = PASSES;

	if (!cm_gate_lock(cache->ops, &device->reclaim_lock))
		return -EBUSY;
	do {
		suspensions = cm_release_suspensions(cache);
		err = flush_once(device, limit_ns, bytes);
	} while (!err && --passes && cache->ops->now_ns() < end &&
		 cm_release_suspensions(cache) != suspensions);
	cm_lock_release(&device->reclaim_lock);
	return err;
}

uint64_t cm_cache_make_room_on(struct cm_cache *cache, uint32_t row)
{
	struct cm_device *device = cm_cache_device(cache, row);
	uint64_t bytes = 0;

	if (!device || !cache->ops->gate_enter())
		return 0;
	if (cm_flush_device(device->first, CM_STUCK_NS, &bytes) != -EBUSY)
		cache->ops->gate_leave();
	return bytes;
}

uint64_t cm_cache_make_room(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);

	return heap ? cm_cache_make_room_on(cache, heap->device->first->index) : 0;
}

/* A segment all of whose blocks are free or will be. */
static bool is_returnable(struct cm_cache *cache, const struct cm_segment *segment)
{
	uint32_t index;

	for (index = segment->first; index; index = cache->block[index].next)
		if (cache->block[index].state == CM_BLOCK_LIVE)
			return false;
	return true;
}

static uint64_t returnable_locked(struct cm_device *device)
{
	struct cm_cache *cache = device->cache;
	uint64_t bytes = 0;
	const uint32_t end = cm_rows_segments(cache);
	uint32_t s;

	for (s = 1; s < end; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (!cm_segment_is_of(segment, device) ||
		    cm_heap_is_suspended(cm_segment_heap(cache, segment)))
			continue;
		if (segment->flags & CM_SEGMENT_PAGED)
			bytes += cm_paged_returnable_locked(cache, s);
		else if (is_returnable(cache, segment))
			bytes += segment->size;
	}
	return bytes;
}

uint64_t cm_cache_returnable(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);
	struct cm_device *first = heap ? heap->device->first : NULL, *each;
	uint64_t bytes = 0;

	if (!first)
		return 0;
	/* All at one moment: segments move from one shard to another. */
	cm_shards_stop(first);
	for (each = first; each; each = cm_device_next_shard(each))
		bytes += returnable_locked(each);
	cm_shards_resume(first);
	return bytes;
}
