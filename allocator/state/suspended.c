/* SPDX-License-Identifier: MIT */
#include "allocator/state/suspended.h"

#include "allocator/base/gate.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/rows.h"

static void backoff(const struct cm_cache *cache, uint64_t *backoff_ns)
{
	cm_ops_backoff(cache->ops, backoff_ns, CM_GATE_BACKOFF_MAX_NS);
}

bool cm_heap_begin_call(struct cm_heap *heap, uint64_t ctx)
{
	uint64_t backoff_ns = CM_GATE_BACKOFF_NS;
	bool stands, begins;

	while (true) {
		cm_lock_acquire(&heap->device->lock);
		stands = heap->ctx == ctx;
		begins = stands && !cm_heap_is_suspended(heap);
		if (begins)
			cm_heap_begin_call_locked(heap);
		cm_lock_release(&heap->device->lock);
		if (begins || !stands)
			return begins;
		backoff(heap->cache, &backoff_ns);
	}
}

int cm_heap_synchronize(struct cm_heap *heap)
{
	const struct cm_driver_ops *ops = heap->cache->ops;
	const uint64_t ctx = cm_heap_ctx(heap);
	int err = 0;

	if (!ctx || !cm_heap_begin_call(heap, ctx))
		return 0;
	if (ops->gate_enter()) {
		err = ops->ctx_synchronize(ctx);
		ops->gate_leave();
	}
	cm_heap_end_call(heap);
	return err;
}

void cm_heap_await_calls(const struct cm_heap *heap)
{
	uint64_t backoff_ns = CM_GATE_BACKOFF_NS;

	while (heap && cm_heap_has_calls(heap))
		backoff(heap->cache, &backoff_ns);
}

static bool is_place_of(struct cm_cache *cache, const struct cm_segment *segment, uint64_t addr,
			uint64_t bytes)
{
	return cm_heap_is_suspended(cm_segment_heap(cache, segment)) &&
	       segment->addr < addr + bytes && addr < segment->addr + segment->size;
}

static bool is_place_on(struct cm_device *device, uint64_t addr, uint64_t bytes)
{
	struct cm_cache *cache = device->cache;
	uint32_t s, end;
	bool is = false;

	cm_lock_acquire(&device->lock);
	end = cm_rows_segments(cache);
	for (s = 1; s < end && !is; s++)
		is = cm_segment_is_of(&cache->segment[s], device) &&
		     is_place_of(cache, &cache->segment[s], addr, bytes);
	cm_lock_release(&device->lock);
	return is;
}

static bool is_place_on_host(struct cm_cache *cache, uint64_t addr, uint64_t bytes)
{
	const struct cm_ptr_map *map = &cache->pinned.map;
	uint64_t i, at;
	uint32_t index;
	bool is = false;

	cm_lock_acquire(&cache->pinned.lock);
	for (i = 0; i < cm_ptr_map_places(map) && !is; i++) {
		index = cm_ptr_map_at(map, i, &at);
		is = index &&
		     is_place_of(cache, &cache->segment[cache->block[index].segment], addr, bytes);
	}
	cm_lock_release(&cache->pinned.lock);
	return is;
}

static bool is_suspended_place(struct cm_cache *cache, uint64_t addr, uint64_t bytes)
{
	uint32_t i, n = atomic_load_explicit(&cache->devices, memory_order_acquire);
	bool is = is_place_on_host(cache, addr, bytes);

	for (i = 0; i < n && !is; i++)
		is = is_place_on(cache->device[i], addr, bytes);
	return is;
}

void cm_cache_await_place(struct cm_cache *cache, uint64_t addr, uint64_t bytes)
{
	uint64_t backoff_ns = CM_GATE_BACKOFF_NS;

	while (atomic_load(&cache->suspended) && is_suspended_place(cache, addr, bytes))
		backoff(cache, &backoff_ns);
}

static void drain_one(struct cm_heap *heap)
{
	enum cm_pool pool;

	cm_lock_acquire(&heap->device->lock);
	if (cm_heap_stop_locked(heap)) {
		for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++)
			cm_bins_init(&heap->bins[pool], heap->cache->block);
		cm_device_note_unreclaimed(heap->device);
	}
	cm_lock_release(&heap->device->lock);
}

void cm_heap_drain(struct cm_heap *heap)
{
	struct cm_heap *each;
	uint32_t at = 0;

	drain_one(heap->first);
	/* See cm_create_shard_heap. */
	atomic_thread_fence(memory_order_seq_cst);
	while ((each = cm_heap_next_shard(heap, &at)))
		drain_one(each);
}
