/* SPDX-License-Identifier: MIT */
#include "allocator/check/check.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/check/check_walk.h"
#include "allocator/state/life_cycle.h"

typedef unsigned long long ull;

/* --- heaps and their epochs --------------------------------------------------------------- */

static bool check_epoch(struct cm_check_walk *walk, const struct cm_heap *heap,
			const struct cm_batch *epoch)
{
	const struct cm_block *block = walk->cache->block;
	uint64_t blocks = 0, bytes = 0;
	uint32_t index;

	for (index = epoch->list.first; index; index = block[index].link_next) {
		if (index >= walk->cache->blocks || walk->seen[index] != CM_SEEN_IN_SEGMENT ||
		    block[index].state != CM_BLOCK_PENDING ||
		    cm_segment_heap(walk->cache, &walk->cache->segment[block[index].segment]) !=
			    heap)
			return cm_why_set(&walk->why,
					  "block %u is in epoch %llu of heap %u by mistake", index,
					  (ull)epoch->number, heap->index);
		walk->seen[index] = CM_SEEN_IN_EPOCH;
		blocks++;
		bytes += block[index].size;
	}
	if (blocks != epoch->blocks || bytes != epoch->bytes)
		return cm_why_set(&walk->why,
				  "epoch %llu of heap %u states %llu blocks of %llu bytes and "
				  "holds %llu of %llu",
				  (ull)epoch->number, heap->index, (ull)epoch->blocks,
				  (ull)epoch->bytes, (ull)blocks, (ull)bytes);
	return true;
}

/* The closed batches of a ring and the open one; adds their blocks. */
static bool check_ring(struct cm_check_walk *walk, const struct cm_heap *heap,
		       const struct cm_batch_ring *ring, uint64_t *blocks)
{
	const struct cm_batch *epoch;
	uint64_t number;

	if (ring->oldest > ring->open.number || ring->open.number - ring->oldest > CM_BATCHES_MAX)
		return cm_why_set(&walk->why, "heap %u has epochs %llu to %llu", heap->index,
				  (ull)ring->oldest, (ull)ring->open.number);
	for (number = ring->oldest; number < ring->open.number; number++) {
		epoch = &ring->closed[number & (CM_BATCHES_MAX - 1)];
		if (epoch->number != number)
			return cm_why_set(&walk->why, "epoch %llu stands in the place of %llu",
					  (ull)epoch->number, (ull)number);
		if (!check_epoch(walk, heap, epoch))
			return false;
		*blocks += epoch->blocks;
	}
	*blocks += ring->open.blocks;
	return check_epoch(walk, heap, &ring->open);
}

static bool check_epochs(struct cm_check_walk *walk, const struct cm_heap *heap)
{
	const struct cm_check_heap *sum = &walk->heap[heap->index];
	uint64_t blocks = 0;

	if (!check_ring(walk, heap, &heap->epochs, &blocks) ||
	    !check_ring(walk, heap, &heap->ordered, &blocks))
		return false;
	if (heap->ordered.open.blocks)
		return cm_why_set(&walk->why, "heap %u: %llu blocks wait for no barrier",
				  heap->index, (ull)heap->ordered.open.blocks);
	if (blocks != sum->pending_blocks || heap->row->pending_blocks != sum->pending_blocks ||
	    heap->row->pending_bytes != sum->pending_bytes)
		return cm_why_set(&walk->why,
				  "heap %u: %llu blocks of %llu bytes wait, its epochs hold %llu "
				  "of %llu",
				  heap->index, (ull)sum->pending_blocks, (ull)sum->pending_bytes,
				  (ull)blocks, (ull)heap->row->pending_bytes);
	return true;
}

static bool check_state(struct cm_check_walk *walk, const struct cm_heap *heap)
{
	const uint32_t flags = cm_heap_flags(heap) & ~(CM_HEAP_SHARED | CM_HEAP_NAMED);
	const enum cm_heap_state state = cm_heap_state(heap);

	if (heap->ctx && (heap->first->ctx != heap->ctx || !cm_heap_is_first(heap->first)))
		return cm_why_set(&walk->why, "heap %u has no first one of its context",
				  heap->index);
	if ((heap->ctx != 0) != (state != CM_STATE_UNUSED))
		return cm_why_set(&walk->why, "heap %u is in use in one place only", heap->index);
	return flags == cm_heap_flags_of(state) ||
	       cm_why_set(&walk->why, "heap %u is in state %u, its flags are %#x", heap->index,
			  state, cm_heap_flags(heap));
}

static bool check_heap(struct cm_check_walk *walk, const struct cm_heap *heap)
{
	const struct cm_check_heap *sum = &walk->heap[heap->index];
	uint64_t blocks;
	enum cm_pool pool;

	if (heap->ctx)
		walk->device[heap->device->index].heaps++;
	if (!check_state(walk, heap))
		return false;
	if (heap->live_bytes != sum->live_bytes)
		return cm_why_set(&walk->why, "heap %u: %llu bytes are live, not %llu", heap->index,
				  (ull)sum->live_bytes, (ull)heap->live_bytes);
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
		if (!cm_check_bins(heap, pool, &walk->why, &blocks))
			return false;
		if (blocks != sum->free_blocks[pool])
			return cm_why_set(&walk->why,
					  "heap %u: %llu blocks are free, its bins hold %llu",
					  heap->index, (ull)sum->free_blocks[pool], (ull)blocks);
		if (!cm_check_paged(heap, pool, sum->paged_bytes[pool], &walk->why))
			return false;
	}
	return check_epochs(walk, heap);
}

static bool check_heaps(struct cm_check_walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t i, used = 0, suspended = 0, n = atomic_load(&cache->heaps);
	const struct cm_heap *heap;

	for (i = 0; i < n; i++) {
		heap = atomic_load(&cache->heap[i]);
		if (!check_heap(walk, heap))
			return false;
		used += heap->ctx && cm_heap_is_first(heap);
		suspended += cm_heap_is_suspended(heap);
	}
	if (suspended != atomic_load(&cache->suspended))
		return cm_why_set(&walk->why, "%u heaps are suspended, not %u", suspended,
				  atomic_load(&cache->suspended));
	if (used != atomic_load(&cache->contexts))
		return cm_why_set(&walk->why, "%u contexts have a heap, not %u", used,
				  atomic_load(&cache->contexts));
	return true;
}

static bool check_all(struct cm_check_walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t i, n = atomic_load(&cache->devices);

	if (!cm_check_segments(walk) || !cm_check_spares(walk) || !check_heaps(walk))
		return false;
	for (i = 0; i < n; i++)
		if (!cm_check_counters(walk, cache->device[i]))
			return false;
	return cm_check_pinned(cache, &walk->why);
}

/* With all locks held except the slow ones, which guard no data. */
static int check_locked(struct cm_cache *cache, char *why, size_t why_bytes)
{
	size_t ranges = cache->segments * sizeof(struct cm_check_range);
	size_t bytes = sizeof(struct cm_check_walk) + ranges + cache->blocks;
	struct cm_check_walk *walk = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	bool ok;

	if (walk == MAP_FAILED)
		return -ENOMEM;
	walk->cache = cache;
	walk->why = (struct cm_why){why, why_bytes};
	walk->range = (struct cm_check_range *)(walk + 1);
	walk->seen = (uint8_t *)(walk + 1) + ranges;
	ok = check_all(walk);
	(void)munmap(walk, bytes);
	return ok ? 0 : -EUCLEAN;
}

/* The paging locks come first in the order of the locks taken here. */
static void hold_pages(struct cm_cache *cache, uint32_t devices) CM_UNCHECKED
{
	uint32_t i;

	for (i = 0; i < devices; i++)
		cm_lock_acquire(&cache->device[i]->paging);
}

static void let_pages_go(struct cm_cache *cache, uint32_t devices) CM_UNCHECKED
{
	while (devices-- > 0)
		cm_lock_release(&cache->device[devices]->paging);
}

int cm_cache_check(struct cm_cache *cache, char *why, size_t why_bytes) CM_UNCHECKED
{
	const uint32_t devices = atomic_load(&cache->devices);
	int err;

	hold_pages(cache, devices);
	cm_lock_acquire(&cache->event_lock);
	cm_cache_hold(cache);
	err = check_locked(cache, why, why_bytes);
	cm_cache_resume(cache);
	cm_lock_release(&cache->event_lock);
	let_pages_go(cache, devices);
	return err;
}
