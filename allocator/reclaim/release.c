/* SPDX-License-Identifier: MIT */
#include "allocator/reclaim/release.h"

#include <errno.h>

#include "allocator/base/gate.h"
#include "allocator/blocks/heap.h"
#include "allocator/paged/paged.h"
#include "allocator/reuse/epoch.h"
#include "allocator/state/limit.h"
#include "allocator/state/report.h"
#include "allocator/state/rows.h"
#include "allocator/state/shards.h"

#define BATCH 32 /* of 40 bytes, on the stack of the caller */

/* What to release: a filter over wholly free segments. */
struct choice {
	/* NULL: all of them. */
	bool (*wants)(const struct choice *choice, const struct cm_segment *segment);
	struct cm_cache *cache;
	const struct cm_heap *heap;
	uint64_t limit;  /* of the filter: an age, a size */
	uint64_t enough; /* stop when so many bytes are found */
};

bool cm_release_can(const struct cm_device *device, const struct cm_segment *segment)
{
	return cm_segment_is_of(segment, device) && cm_segment_is_free(segment) &&
	       !(segment->flags & CM_SEGMENT_PAGED) &&
	       !cm_heap_is_suspended(cm_segment_heap(device->cache, segment));
}

void cm_release_take_locked(struct cm_device *device, uint32_t s,
			    struct cm_pending_release *ret_release)
{
	const struct cm_segment *segment = &device->cache->segment[s];

	*ret_release = (struct cm_pending_release){
		.heap = cm_segment_heap(device->cache, segment),
		.ctx = segment->context,
		.addr = segment->addr,
		.size = segment->size,
	};
	cm_pending_release_begin_locked(&device->releases, ret_release);
	cm_heap_remove_segment_locked(device->cache, s);
}

static int give_by(int (*mem_free)(uint64_t ctx, uint64_t addr), struct cm_pending_release *release)
{
	struct cm_device *device = release->heap->device;
	const struct cm_driver_ops *ops = device->cache->ops;
	const uint64_t start = ops->now_ns();
	const int err = mem_free(release->ctx, release->addr);

	/* A failure is the end of the context and its memory. */
	cm_limit_give(device, release->size);
	cm_device_count(device, CM_SCALAR_driver_free_ns, (int64_t)(ops->now_ns() - start));
	cm_pending_release_end(&device->releases, release);
	return err;
}

void cm_release_give(struct cm_pending_release *release)
{
	/* Fails only if the context is destroyed or has a sticky error: nothing is left to do. */
	(void)give_by(release->heap->cache->ops->mem_free, release);
}

/* Takes up to BATCH chosen segments out of the tables, from row *at on. */
static uint32_t collect(struct cm_device *device, const struct choice *choice, uint32_t *at,
			uint64_t found, struct cm_pending_release *release)
{
	struct cm_cache *cache = device->cache;
	uint32_t n = 0, end;

	cm_lock_acquire(&device->lock);
	end = cm_rows_segments(cache);
	for (; *at < end && n < BATCH && found < choice->enough; (*at)++) {
		const struct cm_segment *segment = &cache->segment[*at];

		if (!cm_release_can(device, segment) ||
		    (choice->wants && !choice->wants(choice, segment)))
			continue;
		cm_release_take_locked(device, *at, &release[n]);
		found += release[n++].size;
	}
	cm_lock_release(&device->lock);
	return n;
}

static uint64_t release_chosen(struct cm_device *device, const struct choice *choice)
{
	struct cm_pending_release release[BATCH];
	uint64_t bytes = 0;
	uint32_t at = 1, n, i;

	while ((n = collect(device, choice, &at, bytes, release)) > 0) {
		for (i = 0; i < n; i++) {
			cm_release_give(&release[i]);
			bytes += release[i].size;
		}
	}
	return bytes;
}

static bool not_recycled(const struct choice *choice, const struct cm_segment *segment)
{
	return !cm_segment_is_recycled(choice->cache, segment);
}

static uint32_t age_of(struct cm_cache *cache, const struct cm_segment *segment)
{
	return cm_segment_heap(cache, segment)->searches[CM_POOL_LARGE] -
	       cache->block[segment->first].age;
}

static bool large_and_aged(const struct choice *choice, const struct cm_segment *segment)
{
	return !(segment->flags & CM_SEGMENT_SMALL) &&
	       age_of(choice->cache, segment) >= choice->limit;
}

static bool of_heap_and_size(const struct choice *choice, const struct cm_segment *segment)
{
	return cm_segment_heap(choice->cache, segment) == choice->heap &&
	       segment->size == choice->limit;
}

bool cm_release_has_suspended(struct cm_device *device)
{
	struct cm_heap *heap;
	uint32_t at = 0;
	bool has = false;

	/* Acquire: see cm_cache_info_must_retry. */
	if (!atomic_load_explicit(&device->cache->suspended, memory_order_acquire))
		return false;
	cm_lock_acquire(&device->lock);
	while (!has && (heap = cm_device_next_heap(device, &at)))
		has = cm_heap_is_suspended(heap);
	cm_lock_release(&device->lock);
	return has;
}

bool cm_release_await_suspended(struct cm_device *device, uint64_t limit_ns)
{
	const struct cm_driver_ops *ops = device->cache->ops;
	const uint64_t end = ops->now_ns() + limit_ns;
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (cm_release_has_suspended(device) && ops->now_ns() < end)
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}

bool cm_release_await_pending(struct cm_device *device, uint64_t limit_ns)
{
	struct cm_device *each;

	for (each = device->first; each; each = cm_device_next_shard(each))
		if (!cm_pending_releases_await(&each->releases, each->cache->ops, limit_ns))
			return false;
	return true;
}

bool cm_release_has_pending(struct cm_device *device)
{
	struct cm_device *each = device->first;

	while (each && !cm_pending_releases_exist(&each->releases))
		each = cm_device_next_shard(each);
	return each;
}

uint64_t cm_release_free(struct cm_device *device)
{
	const struct choice choice = {.cache = device->cache, .enough = UINT64_MAX};
	uint64_t bytes = cm_paged_release(device);
	struct cm_device *each;

	for (each = device->first; each; each = cm_device_next_shard(each))
		bytes += release_chosen(each, &choice);
	return bytes;
}

static uint64_t idle_tick(const struct cm_device *device, const struct cm_segment *segment)
{
	return device->cache->block[segment->first].tick;
}

/* The segment that has been idle longest, and since when; or 0. */
static uint32_t find_idlest(struct cm_device *device, uint64_t most, uint64_t *ret_tick)
{
	struct cm_cache *cache = device->cache;
	const uint32_t end = cm_rows_segments(cache);
	uint32_t s = 1, next, best = 0;

	*ret_tick = UINT64_MAX;
	while (s < end) {
		next = cm_rows_slice(s, end);
		cm_lock_acquire(&device->lock);
		for (; s < next; s++) {
			const struct cm_segment *segment = &cache->segment[s];

			if (!cm_release_can(device, segment) || segment->size > most ||
			    idle_tick(device, segment) >= *ret_tick)
				continue;
			best = s;
			*ret_tick = idle_tick(device, segment);
		}
		cm_lock_release(&device->lock);
	}
	return best;
}

uint64_t cm_release_idlest(struct cm_device *device, uint64_t most)
{
	struct cm_pending_release release = {0};
	uint64_t tick;
	uint32_t s;

	/* Retries if the program has allocated it meanwhile. */
	while (!release.size && (s = find_idlest(device, most, &tick)) != 0) {
		const struct cm_segment *segment = &device->cache->segment[s];

		cm_lock_acquire(&device->lock);
		if (cm_release_can(device, segment) && segment->size <= most &&
		    idle_tick(device, segment) == tick)
			cm_release_take_locked(device, s, &release);
		cm_lock_release(&device->lock);
	}
	if (release.size)
		cm_release_give(&release);
	return release.size;
}

/* The reclaim lock is held. */
static int release_all_unreclaimed(struct cm_device *device)
{
	const struct choice choice = {
		.wants = not_recycled, .cache = device->cache, .enough = UINT64_MAX};
	int err = cm_epoch_quiesces(device, CM_PATIENCE_NS);

	if (err)
		return err;
	(void)release_chosen(device, &choice);
	cm_paged_release_unreclaimed(device);
	return 0;
}

int cm_release_unreclaimed_slowly(struct cm_device *device)
{
	int err = -EAGAIN;

	atomic_store_explicit(&device->unreclaimed, false, memory_order_relaxed);
	cm_paged_return_forgotten(device->cache);
	if (cm_lock_try(&device->first->reclaim_lock)) {
		err = release_all_unreclaimed(device);
		cm_lock_release(&device->first->reclaim_lock);
	}
	if (err)
		cm_device_note_unreclaimed(device);
	return err == -EBUSY ? err : 0;
}

int cm_release_unreclaimed_segment(struct cm_device *device, uint32_t s)
{
	struct cm_cache *cache = device->cache;
	const struct cm_driver_ops *ops = cache->ops;
	const struct cm_segment *segment = &cache->segment[s];
	struct cm_pending_release release = {0};

	cm_lock_acquire(&device->lock);
	if (cm_release_can(device, segment) && !cm_segment_is_recycled(cache, segment))
		cm_release_take_locked(device, s, &release);
	cm_lock_release(&device->lock);
	if (!release.addr)
		return 0;
	return give_by(ops->mem_free_as_asked ? ops->mem_free_as_asked : ops->mem_free, &release);
}

/* The average age of the large pool's wholly free segments; false if there are none. */
static bool average_age(struct cm_device *device, uint64_t *ret_age)
{
	struct cm_cache *cache = device->cache;
	uint64_t sum = 0, n = 0;
	uint32_t s, end;

	cm_lock_acquire(&device->lock);
	end = cm_rows_segments(cache);
	for (s = 1; s < end; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (!cm_release_can(device, segment) || segment->flags & CM_SEGMENT_SMALL)
			continue;
		sum += age_of(cache, segment);
		n++;
	}
	cm_lock_release(&device->lock);
	if (n)
		*ret_age = sum / n;
	return n != 0;
}

int cm_release_aged(struct cm_heap *heap)
{
	struct cm_device *device = heap->device;
	const struct cm_policy *policy = &device->cache->policy;
	struct choice choice = {
		.wants = large_and_aged, .cache = device->cache, .enough = UINT64_MAX};
	const uint64_t allowed = cm_limit_bytes(device);
	uint64_t limit, reserved, target, freed = 0, pass;
	struct cm_device *each;
	int err;

	if (!allowed || policy->garbage_collection_threshold <= 0)
		return 0;
	limit = (uint64_t)(policy->garbage_collection_threshold * (double)allowed);
	reserved = cm_shards_reserved(device);
	if (reserved <= limit)
		return 0;
	err = cm_epoch_quiesces(device, CM_PATIENCE_NS);
	if (err)
		return err == -EBUSY ? err : 0;
	target = reserved - limit;
	for (each = device->first; each; each = cm_device_next_shard(each))
		for (pass = 1; freed < target && pass && average_age(each, &choice.limit);
		     freed += pass)
			pass = release_chosen(each, &choice);
	cm_device_count(device, CM_SCALAR_gc_bytes, (int64_t)freed);
	return 0;
}

/* The size of the heap's smallest wholly free segment of at least `size`, or of its largest. */
static uint64_t pick_size(struct cm_heap *heap, uint64_t size)
{
	struct cm_cache *cache = heap->cache;
	uint64_t best = 0;
	uint32_t s, end;

	cm_lock_acquire(&heap->device->lock);
	end = cm_rows_segments(cache);
	for (s = 1; s < end; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if (!cm_release_can(heap->device, segment) ||
		    cm_segment_heap(cache, segment) != heap)
			continue;
		if (segment->size >= size ? best < size || segment->size < best
					  : best < size && segment->size > best)
			best = segment->size;
	}
	cm_lock_release(&heap->device->lock);
	return best;
}

bool cm_release_oversize(struct cm_heap *heap, uint64_t size, uint64_t *bytes)
{
	uint64_t least = heap->cache->policy.max_split_size, key = size > least ? size : least;
	struct choice choice = {
		.wants = of_heap_and_size, .cache = heap->cache, .heap = heap, .enough = 1};
	uint64_t freed = 0, pass = 1;

	if (least == UINT64_MAX)
		return false;
	while (freed < key && pass) {
		choice.limit = pick_size(heap, key);
		if (choice.limit < least)
			break;
		freed += pass = release_chosen(heap->device, &choice);
	}
	*bytes += freed;
	return freed >= key;
}
