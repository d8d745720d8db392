/* SPDX-License-Identifier: MIT */
#include "allocator/reclaim/exchange.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/fragmentation.h"
#include "allocator/reclaim/release.h"
#include "allocator/reuse/await.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/pages.h"
#include "allocator/state/report.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"
#include "stats/summary.h"

/* Wholly free segments of the large pool, the largest first. */
struct idle {
	uint32_t segment[CM_EXCHANGE_MAX];
	uint32_t segments;
};

static void note_idle(const struct cm_cache *cache, struct idle *idle, uint32_t s)
{
	const uint64_t size = cache->segment[s].size;
	uint32_t at = idle->segments;

	if (at == CM_EXCHANGE_MAX && cache->segment[idle->segment[--at]].size >= size)
		return;
	for (; at && cache->segment[idle->segment[at - 1]].size < size; at--)
		idle->segment[at] = idle->segment[at - 1];
	idle->segment[at] = s;
	idle->segments += idle->segments < CM_EXCHANGE_MAX;
}

static void list_idle_locked(struct cm_device *device, struct idle *idle)
{
	struct cm_cache *cache = device->cache;
	const uint32_t end = cm_rows_segments(cache);
	uint32_t s;

	for (s = 1; s < end; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (cm_release_can(device, segment) && !(segment->flags & CM_SEGMENT_SMALL))
			note_idle(cache, idle, s);
	}
}

/* Keeps as few as are `need` bytes together: the largest ones, and last the smallest that is what
 * they lack. */
static void choose_idle(const struct cm_cache *cache, uint64_t need, struct idle *idle)
{
	uint32_t *segment = idle->segment, n = 0, at, last;
	uint64_t bytes = 0;

	for (; n < idle->segments && bytes < need; n++) {
		for (at = last = n; at < idle->segments; at++)
			if (cache->segment[segment[at]].size >= need - bytes)
				last = at;
		segment[n] = segment[last]; /* those in between are too much */
		bytes += cache->segment[segment[n]].size;
	}
	idle->segments = n;
}

/* A request of `bytes` of the heap, for which idle segments return. */
struct exchange {
	struct cm_heap *heap;
	uint64_t bytes;
	struct cm_device *device; /* the shard whose idle segments return */
};

/* What may be reserved before idle segments return: as much as before, and more if blocks are not
 * split. */
static uint64_t may_reserve_locked(const struct exchange *exchange)
{
	const struct cm_heap *heap = exchange->heap;
	const uint64_t most = atomic_load_explicit(&heap->device->first->most_reserved,
						   memory_order_relaxed);
	const uint64_t unsplit = heap->cache->exact ? cm_fragmentation_unsplit_most_locked(
							      heap, exchange->bytes)
						    : 0;

	return unsplit > most ? unsplit : most;
}

/* How much returns: the excess of what would be reserved. */
static uint64_t missing_locked(const struct exchange *exchange)
{
	const uint64_t reserved = cm_shards_reserved(exchange->heap->device) + exchange->bytes;
	const uint64_t most = may_reserve_locked(exchange);

	return reserved > most ? reserved - most : 0;
}

/* Chooses what returns; false: nothing. */
static bool find_idle_locked(const struct exchange *exchange, struct idle *ret_idle)
{
	struct cm_heap *heap = exchange->heap;
	const uint64_t missing = missing_locked(exchange);

	ret_idle->segments = 0;
	if (!cm_heap_ctx(heap) || !missing)
		return false;
	/* For a program that only grows, the walk over all its segments is skipped. */
	if (cm_summary_pool(exchange->device->row, CM_POOL_LARGE).releasable <= 0)
		return false;
	list_idle_locked(exchange->device, ret_idle);
	choose_idle(heap->cache, missing, ret_idle);
	return ret_idle->segments != 0;
}

static bool has_idle(const struct exchange *exchange)
{
	struct idle idle;

	return CM_WITH_LOCK(&exchange->device->lock, find_idle_locked(exchange, &idle));
}

/* Takes them out of the tables. Returns how many. */
static uint32_t take_idle(const struct exchange *exchange, struct cm_pending_release *release)
{
	struct cm_device *device = exchange->device;
	struct idle idle;
	uint32_t i;

	cm_lock_acquire(&device->lock);
	if (!find_idle_locked(exchange, &idle))
		idle.segments = 0;
	for (i = 0; i < idle.segments; i++)
		cm_release_take_locked(device, idle.segment[i], &release[i]);
	cm_lock_release(&device->lock);
	return idle.segments;
}

/* -EBUSY: outside of the gate. -EAGAIN: the device is busy. */
static int give_idle_of_shard(const struct exchange *exchange)
{
	struct cm_device *device = exchange->device;
	struct cm_pending_release *release = device->first->exchanged;
	uint64_t given = 0;
	uint32_t i, n;
	int err = 0;

	if (!has_idle(exchange))
		return 0;
	if (!cm_epoch_is_idle(device))
		err = cm_epoch_quiesces(device, CM_PATIENCE_NS);
	if (err)
		return err == -EBUSY ? err : -EAGAIN;
	n = take_idle(exchange, release);
	for (i = 0; i < n; i++) {
		cm_release_give(&release[i]);
		given += release[i].size;
	}
	if (given)
		cm_device_count(device, CM_SCALAR_exchange_bytes, (int64_t)given);
	return 0;
}

/* The heap's own shard comes first. The reclaim lock is held. */
static int give_idle(struct exchange *exchange)
{
	struct cm_device *own = exchange->heap->device, *each;
	int err;

	exchange->device = own;
	err = give_idle_of_shard(exchange);
	for (each = own->first; each && !err; each = cm_device_next_shard(each)) {
		exchange->device = each;
		if (each != own)
			err = give_idle_of_shard(exchange);
	}
	return err;
}

int cm_exchange(struct cm_heap *heap, uint64_t bytes)
{
	struct exchange exchange = {.heap = heap, .bytes = bytes};
	struct cm_lock *reclaim_lock = &heap->device->first->reclaim_lock;
	struct cm_cache *cache = heap->cache;
	int err;

	/* An old driver can only be waited for without a limit. */
	if (!(cache->plain || cache->exact) || cm_paged_serves(heap) || !cache->policy.exchange ||
	    !cm_epoch_can_ask(cache))
		return 0;
	exchange.device = heap->device;
	if (has_idle(&exchange) && !cm_epoch_is_idle(heap->device)) {
		err = cm_epoch_wait_for_device(heap);
		if (err == -EBUSY)
			return err;
	}
	if (!cm_lock_try(reclaim_lock))
		return 0;
	err = give_idle(&exchange);
	cm_lock_release(reclaim_lock);
	return err == -EBUSY ? err : 0;
}
