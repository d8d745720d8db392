/* SPDX-License-Identifier: MIT */
#include "allocator/oom/oom.h"

#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/cache.h"
#include "allocator/state/limit.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"
#include "stats/counters.h"
#include "stats/summary.h"

typedef void (*block_fn)(void *data, const struct cm_block *block);

static bool is_of_device(const struct cm_segment *segment, const struct cm_device *first)
{
	const struct cm_device *each = first;

	while (each && !cm_segment_is_of(segment, each))
		each = cm_device_next_shard(each);
	return each;
}

/* Of all shards, which are stopped. */
static void for_each_block_locked(struct cm_device *first, block_fn fn, void *data)
{
	struct cm_cache *cache = first->cache;
	uint32_t s, index, end = cm_rows_segments(cache);

	for (s = 1; s < end; s++) {
		if (!is_of_device(&cache->segment[s], first))
			continue;
		for (index = cache->segment[s].first; index; index = cache->block[index].next)
			fn(data, &cache->block[index]);
	}
}

/* What is ready. */
struct pieces {
	int64_t largest;
	int64_t pages; /* bytes of the whole ones */
};

static void measure(void *data, const struct cm_block *block)
{
	const uint64_t first = (block->addr + CM_SEGMENT_GRAIN - 1) & ~(CM_SEGMENT_GRAIN - 1);
	const uint64_t end = (block->addr + block->size) & ~(CM_SEGMENT_GRAIN - 1);
	struct pieces *pieces = data;

	if (block->state != CM_BLOCK_FREE)
		return;
	if ((int64_t)block->size > pieces->largest)
		pieces->largest = (int64_t)block->size;
	if (end > first)
		pieces->pages += (int64_t)(end - first);
}

/* By what blocks in use are grouped. */
struct ranking {
	struct cm_oom_tally tally;
	bool by_stack;
};

static uint64_t holder_key(const struct ranking *ranking, const struct cm_block *block)
{
	return ranking->by_stack ? block->stack : block->size;
}

static void find_stack(void *data, const struct cm_block *block)
{
	struct ranking *ranking = data;

	ranking->by_stack |= block->state == CM_BLOCK_LIVE && block->stack;
}

static void propose(void *data, const struct cm_block *block)
{
	struct ranking *ranking = data;

	if (block->state == CM_BLOCK_LIVE)
		cm_oom_propose(&ranking->tally, holder_key(ranking, block), (int64_t)block->size);
}

static void recount(void *data, const struct cm_block *block)
{
	struct ranking *ranking = data;

	if (block->state == CM_BLOCK_LIVE)
		cm_oom_count(&ranking->tally, holder_key(ranking, block), (int64_t)block->size);
}

/* By stack, if any is known. Not inlined: its tally would stay on the stack in all calls that
 * follow. */
CM_NOINLINE static void rank_holders_locked(struct cm_device *device,
					    struct cm_oom_holders *ret_holders)
{
	struct ranking ranking = {0};

	for_each_block_locked(device, find_stack, &ranking);
	for_each_block_locked(device, propose, &ranking);
	cm_oom_recount(&ranking.tally);
	for_each_block_locked(device, recount, &ranking);
	cm_oom_rank(&ranking.tally, ret_holders);
	ret_holders->by_stack = ranking.by_stack;
}

/* Where a request failed. */
struct failure {
	struct cm_device *device; /* the first shard */
	uint32_t heap;            /* row of the heap, 0: none */
	uint8_t pool;             /* of the event */
	enum cm_scalar sum;       /* that counts it */
	bool outside;             /* the cache */
};

static void count_failure_locked(const struct failure *failure,
				 const struct cm_oom_attempt *attempt, struct cm_oom *oom,
				 bool free_seen, uint64_t free_bytes)
{
	struct cm_device *device = failure->device;
	struct cm_cache *cache = device->cache;

	cm_counters_begin(device->row);
	if (free_seen)
		cm_counters_note_free(device->row, free_bytes, cache->ops->now_ns());
	cm_counters_count(device->row, failure->sum, 1);
	cm_counters_count(device->row, CM_SCALAR_num_oom_rejections, attempt->capped);
	oom->stack = cm_thread.stack;
	cm_ring_add(&device->ring, &device->row->event_next,
		    failure->outside ? CM_ACTION_OUTSIDE_OOM : CM_ACTION_OOM,
		    (enum cm_pool)failure->pool, failure->heap, cm_origin_of(oom->stack),
		    cm_cache_tick(cache), free_seen ? free_bytes : CM_FREE_UNKNOWN, attempt->size);
	oom->event = device->ring.row ? device->row->event_next : 0;
	cm_counters_end(device->row);
}

static void fill_figures_locked(struct cm_device *device, const struct cm_oom_attempt *attempt,
				uint64_t free_bytes, struct cm_oom *oom)
{
	const struct cm_device_row *row = cm_shards_sum_locked(device);
	const struct cm_summary sum = cm_summary_pool(row, CM_POOL_ALL);

	oom->blocks = sum.blocks;
	oom->rounding = sum.rounding;
	oom->figures = (struct cm_oom_figures){
		.asked = (int64_t)attempt->size,
		.total = (int64_t)device->row->total_bytes,
		.free = (int64_t)free_bytes,
		.live = sum.allocated,
		.pending = sum.pending,
		.fragmented = sum.fragmented,
		.releasable = sum.releasable,
		.other = cm_summary_other(row),
		.managed = row->other_bytes[CM_UNCACHED_MANAGED].current,
		.peers = attempt->peers.held_bytes,
		.limit = (int64_t)cm_limit_bytes(device),
		.limited = attempt->capped,
		.context = (int64_t)device->context_bytes,
	};
}

static enum cm_oom_report read_report(const struct cm_cache *cache)
{
	return __atomic_load_n(&cache->policy.oom_report, __ATOMIC_RELAXED);
}

void cm_cache_set_oom_report(struct cm_cache *cache, enum cm_oom_report report)
{
	__atomic_store_n(&cache->policy.oom_report, report, __ATOMIC_RELAXED);
}

static void note(const struct failure *failure, const struct cm_oom_attempt *attempt,
		 int info_error, uint64_t free_bytes, struct cm_oom *oom)
{
	struct cm_device *device = failure->device;
	struct cm_cache *cache = device->cache;
	const bool told = read_report(cache) != CM_OOM_REPORT_OFF;
	struct pieces pieces = {0};

	*oom = (struct cm_oom){
		.bytes = attempt->bytes,
		.row = device->index,
		.ordinal = device->row->ordinal,
		.device_name = device->row->name,
		.given_back = (int64_t)attempt->given_back,
		.peers = attempt->peers,
		.busy = attempt->busy,
		.info_error = info_error,
	};
	oom->nth = 1 + atomic_fetch_add_explicit(&cache->ooms, 1, memory_order_relaxed);
	oom->has_holders = oom->nth == 1 && read_report(cache) == CM_OOM_REPORT_FULL;
	cm_shards_stop(device);
	count_failure_locked(failure, attempt, oom, !info_error, free_bytes);
	fill_figures_locked(device, attempt, free_bytes, oom);
	if (told)
		for_each_block_locked(device, measure, &pieces);
	oom->largest = pieces.largest;
	oom->figures.pages = pieces.pages;
	if (oom->has_holders)
		rank_holders_locked(device, &oom->holders);
	cm_shards_resume(device);
}

void cm_oom_note(struct cm_heap *heap, const struct cm_oom_attempt *attempt, struct cm_oom *ret_oom)
{
	const struct failure failure = {.device = heap->device->first,
					.heap = heap->index,
					.pool = (uint8_t)cm_size_pool(attempt->size),
					.sum = CM_SCALAR_num_ooms};
	uint64_t free_bytes = 0, total = 0;
	const int err = heap->cache->ops->mem_info(cm_heap_ctx(heap), &free_bytes, &total);

	note(&failure, attempt, err, free_bytes, ret_oom);
	atomic_store_explicit(&heap->device->first->failed_size, attempt->size,
			      memory_order_relaxed);
}

static const char *kind_name(enum cm_uncached_kind kind)
{
	static const char *const names[CM_UNCACHED_COUNT] = {
		[CM_UNCACHED_MANAGED] = "managed memory",
		[CM_UNCACHED_PITCH] = "pitched memory",
		[CM_UNCACHED_ARRAY] = "an array",
		[CM_UNCACHED_ASYNC] = "stream-ordered memory",
		[CM_UNCACHED_VMM] = "memory to map",
		[CM_UNCACHED_FORWARDED] = "memory outside the cache",
	};

	return names[kind];
}

void cm_oom_note_uncached(struct cm_cache *cache, uint32_t row, uint64_t ctx,
			  enum cm_uncached_kind kind, const struct cm_oom_attempt *attempt,
			  struct cm_oom *ret_oom)
{
	const struct failure failure = {.device = cm_cache_device(cache, row),
					.pool = (uint8_t)kind,
					.sum = CM_SCALAR_uncached_ooms,
					.outside = true};
	uint64_t free_bytes = 0, total = 0;
	int err = -EBUSY;

	if (!failure.device)
		return;
	if (cache->ops->gate_enter()) {
		err = cache->ops->mem_info(ctx, &free_bytes, &total);
		cache->ops->gate_leave();
	}
	note(&failure, attempt, err, free_bytes, ret_oom);
	ret_oom->kind = kind_name(kind);
	ret_oom->captured = err == -EBUSY;
}

void cm_oom_note_pinned(struct cm_heap *heap, uint64_t bytes, struct cm_oom *ret_oom)
{
	struct cm_cache *cache = heap->cache;
	struct cm_host_row row;

	cm_cache_read_host(cache, &row);
	*ret_oom = (struct cm_oom){
		.nth = 1 + atomic_fetch_add_explicit(&cache->ooms, 1, memory_order_relaxed),
		.kind = "pinned host memory",
		.host = true,
		.bytes = bytes,
		.stack = cm_thread.stack,
		.blocks = row.allocated.current,
		.figures.live = row.allocated_bytes.current,
		.figures.releasable = row.reserved_bytes.current - row.allocated_bytes.current,
		.figures.total = row.reserved_bytes.current + (int64_t)bytes,
	};
}

void cm_oom_note_served_late(struct cm_heap *heap, uint64_t size, uint64_t bytes,
			     struct cm_oom *ret_oom)
{
	struct cm_device *device = heap->device->first;

	if (!atomic_compare_exchange_strong(&device->failed_size, &size, 0))
		return;
	*ret_oom = (struct cm_oom){
		.nth = atomic_load_explicit(&heap->cache->ooms, memory_order_relaxed),
		.served = true,
		.bytes = bytes,
		.figures.total = (int64_t)device->row->total_bytes,
		.ordinal = device->row->ordinal,
		.device_name = device->row->name,
	};
}

/* The event is written at the moment of the failure, when locks are held; its stack follows
 * later. */
static void set_stack(struct cm_cache *cache, const struct cm_oom *oom)
{
	struct cm_device *device = cm_cache_device(cache, oom->row);
	struct cm_event *event;

	if (!device || oom->host || !oom->event)
		return;
	cm_lock_acquire(&device->lock);
	event = device->ring.row ? &device->ring.row[(oom->event - 1) & device->ring.mask] : NULL;
	if (event && event->number == oom->event)
		event->stack = oom->stack;
	cm_lock_release(&device->lock);
}

void cm_oom_tell(struct cm_cache *cache, struct cm_oom *oom)
{
	const struct cm_driver_ops *ops = cache->ops;
	const bool told = ops->tell_oom && read_report(cache) != CM_OOM_REPORT_OFF;

	if (!oom->nth)
		return;
	if (told && !oom->served && !oom->stack && ops->capture_stack) {
		oom->stack = ops->capture_stack();
		set_stack(cache, oom);
	}
	if (!oom->served && ops->show_oom)
		ops->show_oom();
	if (told)
		ops->tell_oom(oom);
}
