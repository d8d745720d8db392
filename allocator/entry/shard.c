/* SPDX-License-Identifier: MIT */
#include "allocator/entry/shard.h"

#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/free.h"
#include "allocator/entry/create.h"
#include "allocator/entry/slow_reuse.h"
#include "allocator/state/pages.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

/* A thread contends if it has paused so often for the locks of devices within this time: that is a
 * tenth of the time on processors where a pause takes 28 ns, and 2 % where it takes 5. */
#define PAUSES    4096u
#define WITHIN_NS UINT64_C(1000000)
/* A thread that frees so many blocks of other shards meanwhile, so many times, waits for their
 * locks, too: it returns to the first shard. What it had allocated before it changed shards is of
 * another one as well, but comes to an end. */
#define REMOTE_MOST  128u
#define REMOTE_TIMES 8u

/* ---- whose memory a thread uses ---- */

/* A shard needs what makes pieces interchangeable, and a fence that does not wait. */
static bool may_have_shards(const struct cm_heap *heap)
{
	const struct cm_cache *cache = heap->cache;

	return cache->policy.shards != CM_SHARDS_OFF && cache->policy.shards_most > 1 &&
	       cache->plain && cache->policy.mode == CM_MODE_CACHE && !cm_paged_serves(heap) &&
	       heap->can & CM_CAN_CTX_EVENTS;
}

static bool contends(const struct cm_cache *cache)
{
	const uint64_t now_ns = cache->ops->now_ns(), since_ns = cm_thread.pauses_since_ns;

	cm_thread.pauses = 0;
	cm_thread.pauses_since_ns = now_ns;
	return now_ns - since_ns < WITHIN_NS;
}

static bool frees_of_others(void)
{
	cm_thread.remote_times += cm_thread.remote_frees >= REMOTE_MOST;
	cm_thread.remote_frees = 0;
	return cm_thread.remote_times >= REMOTE_TIMES;
}

/* By turns, from the second shard on: the thread that finds contention first leaves the others. */
static uint32_t next_number(struct cm_device *first)
{
	const uint32_t turn = atomic_fetch_add_explicit(&first->chosen, 1, memory_order_relaxed);

	return (turn + 1) % first->cache->policy.shards_most;
}

static bool is_own_shard(const struct cm_heap *heap)
{
	return cm_thread.shard && cm_shards_number_of(heap->device) == cm_thread.shard - 1;
}

static CM_NOINLINE struct cm_heap *choose(struct cm_heap *heap)
{
	struct cm_cache *cache = heap->cache;
	struct cm_heap *chosen;

	if (!may_have_shards(heap) || (cache->policy.shards == CM_SHARDS_AUTO && !contends(cache)))
		return heap;
	if (!cm_thread.shard)
		cm_thread.shard = next_number(heap->device->first) + 1;
	else if (frees_of_others())
		cm_thread.shard = 1;
	if (is_own_shard(heap))
		return heap;
	chosen = cm_create_shard_heap(heap->first, cm_thread.shard - 1);
	if (chosen)
		cm_thread.heap = chosen;
	return chosen ? chosen : heap;
}

struct cm_heap *cm_shard_choose(struct cm_heap *heap)
{
	if (CM_LIKELY(cm_thread.pauses < PAUSES &&
		      (heap->cache->policy.shards != CM_SHARDS_ALWAYS || is_own_shard(heap))))
		return heap;
	return choose(heap);
}

/* ---- memory of other shards ---- */

/* A free block of the heap that is a whole segment and serves the size; 0: the best fit is none. */
static uint32_t find_whole_locked(struct cm_heap *heap, uint64_t size)
{
	const struct cm_cache *cache = heap->cache;
	const enum cm_pool pool = cm_size_pool(size);
	/* The best fit of a small size would be a piece. */
	const uint64_t least = pool == CM_POOL_SMALL ? CM_SEGMENT_GRAIN : size;
	const uint32_t flags = CM_SEGMENT_USED | CM_SEGMENT_SMALL;
	uint32_t index;

	if (pool == CM_POOL_SMALL && heap->may_be_apart)
		(void)cm_heap_merge_locked(heap, least, CM_MERGE_LOOKS);
	index = cm_bins_find(&heap->bins[pool], least).index;
	if (!index || cm_block_is_split(&cache->block[index]) ||
	    cache->segment[cache->block[index].segment].flags & ~flags)
		return 0;
	return index;
}

/* Both shards are stopped. False: the pages of the segment belong to another one, too. */
static bool move_locked(struct cm_heap *from, struct cm_heap *to, uint32_t index)
{
	struct cm_cache *cache = from->cache;
	struct cm_block *block = &cache->block[index];
	struct cm_segment *segment = &cache->segment[block->segment];
	const enum cm_pool pool = cm_segment_pool(segment);

	if (CM_WITH_LOCK(&cache->tables, cm_page_map_move(&cache->pages, segment->addr,
							  segment->size, to->device->index)))
		return false;
	*cm_recent_at(&from->device->recent, block->addr) = 0;
	cm_bins_remove(&from->bins[pool], index);
	segment->heap = to->index;
	__atomic_store_n(&segment->device, to->device->index, __ATOMIC_RELAXED);
	block->age = to->searches[pool];
	cm_bins_insert(&to->bins[pool], index);
	cm_shards_begin_move_locked(to->device->first);
	cm_counters_move_segment(from->device->row, to->device->row, pool, (int64_t)segment->size);
	cm_shards_end_move_locked(to->device->first);
	cm_fragmentation_note_reserved_locked(from);
	cm_fragmentation_note_reserved_locked(to);
	return true;
}

static bool has_whole(struct cm_heap *heap, uint64_t size)
{
	return CM_WITH_LOCK(&heap->device->lock, find_whole_locked(heap, size) != 0);
}

/* Moves a segment that would serve the request from the other heap to its own. */
static bool move_segment(const struct cm_slow_request *request, struct cm_heap *from)
{
	struct cm_heap *to = request->heap;
	bool moved = false;
	uint32_t index;

	if (!has_whole(from, request->size))
		return false;
	cm_shards_stop(to->device->first);
	if (cm_heap_ctx(from) == request->ctx && cm_slow_stands(request) &&
	    cm_heap_state(from) == CM_STATE_SERVING && cm_heap_state(to) == CM_STATE_SERVING) {
		index = find_whole_locked(from, request->size);
		moved = index && move_locked(from, to, index);
	}
	cm_shards_resume(to->device->first);
	return moved;
}

static int take_from(const struct cm_slow_request *request, struct cm_heap *heap)
{
	struct cm_slow_request other = *request;

	other.heap = heap;
	return request->size > CM_SMALL_MAX ? cm_slow_reuse(&other) : -ENOENT;
}

int cm_shard_take_from_others(const struct cm_slow_request *request)
{
	struct cm_heap *heap = request->heap, *each;
	int err = -ENOENT;
	uint32_t at = 0;

	while (err == -ENOENT && (each = cm_heap_next_shard(heap, &at))) {
		if (each == heap)
			continue;
		if (move_segment(request, each))
			err = cm_slow_take_unfragmenting(request);
		if (err == -ENOENT)
			err = take_from(request, each);
	}
	return err;
}

int cm_shard_take_anywhere(const struct cm_slow_request *request)
{
	struct cm_slow_request other = *request;
	int err = cm_slow_take(request);
	struct cm_heap *each;
	uint32_t at = 0;

	while (err == -ENOENT && (each = cm_heap_next_shard(request->heap, &at))) {
		other.heap = each;
		if (each != request->heap)
			err = cm_slow_take(&other);
	}
	return err;
}
