/* SPDX-License-Identifier: MIT */
#include "allocator/check/check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "allocator/base/size_class.h"
#include "allocator/state/life_cycle.h"
#include "allocator/state/report.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

typedef unsigned long long ull;

/* In which structures a block row was found. */
enum { SEEN_NOWHERE, SEEN_SPARE, SEEN_IN_SEGMENT, SEEN_IN_EPOCH };

struct heap_sum {
	uint64_t live_bytes;
	uint64_t pending_blocks;
	uint64_t pending_bytes;
	uint64_t free_blocks[CM_POOL_COUNT]; /* in recycled segments */
	uint64_t paged_bytes[CM_POOL_COUNT]; /* of the runs */
};

struct device_sum {
	int64_t stat[CM_POOL_COUNT][CM_STAT_COUNT];
	int64_t stat1[CM_STAT1_COUNT];
	uint32_t heaps;
};

struct range {
	uint64_t addr;
	uint64_t size;
};

/* Scratch memory of one check, from a new mapping: the structures under test are not trusted. */
struct walk {
	struct cm_cache *cache;
	struct cm_why why;
	struct heap_sum heap[CM_HEAPS_MAX];
	struct device_sum device[CM_DEVICES_MAX];
	uint32_t ranges;
	struct range *range; /* of the segments */
	uint8_t *seen;       /* of each block row: SEEN_* */
};

/* --- segments and their blocks ------------------------------------------------------------ */

/* A block in use is found by its address, and no other block is. A driver allocation of less than
 * CM_GRAIN may share its cell. */
static bool check_cell(struct walk *walk, uint32_t index)
{
	const struct cm_block *block = &walk->cache->block[index];
	const struct cm_segment *segment = &walk->cache->segment[block->segment];
	const uint32_t found = cm_page_map_find(&walk->cache->pages, segment->device, block->addr);

	if (found == (block->state == CM_BLOCK_LIVE ? index : 0) ||
	    (!found && segment->flags & CM_SEGMENT_DIRECT))
		return true;
	return cm_why_set(&walk->why, "the page map has block %u in place of %u at %#llx", found,
			  index, (ull)block->addr);
}

/* Whether the segment may have free neighbours: of small blocks that merge late, which no longer
 * matter once the segment is not recycled. */
static bool may_merge_late(struct cm_cache *cache, const struct cm_segment *segment)
{
	return segment->flags & CM_SEGMENT_SMALL && (cm_segment_heap(cache, segment)->merges_late ||
						     !cm_segment_is_recycled(cache, segment));
}

static bool check_block(struct walk *walk, uint32_t s, uint32_t index, uint32_t before,
			uint64_t addr)
{
	const struct cm_block *block = &walk->cache->block[index];

	if (index >= walk->cache->blocks || walk->seen[index] != SEEN_NOWHERE)
		return cm_why_set(&walk->why, "segment %u: block %u is not its own", s, index);
	walk->seen[index] = SEEN_IN_SEGMENT;
	if (block->segment != s || block->prev != before || block->addr != addr)
		return cm_why_set(&walk->why, "block %u of segment %u does not follow block %u",
				  index, s, before);
	if (!block->size ||
	    (block->size % CM_GRAIN && !(walk->cache->segment[s].flags & CM_SEGMENT_DIRECT)))
		return cm_why_set(&walk->why, "block %u has %llu bytes", index, (ull)block->size);
	switch (block->state) {
	case CM_BLOCK_LIVE:
	case CM_BLOCK_PENDING:
		if (!check_cell(walk, index))
			return false;
		if (!block->requested || block->requested > block->size)
			return cm_why_set(&walk->why, "block %u of %llu bytes serves %llu", index,
					  (ull)block->size, (ull)block->requested);
		return true;
	case CM_BLOCK_FREE:
		if (before && walk->cache->block[before].state == CM_BLOCK_FREE &&
		    !may_merge_late(walk->cache, &walk->cache->segment[s]))
			return cm_why_set(&walk->why, "blocks %u and %u are free neighbours",
					  before, index);
		return true;
	default:
		return cm_why_set(&walk->why, "block %u is in state %u", index, block->state);
	}
}

static bool check_is_free(struct walk *walk, uint32_t first)
{
	const struct cm_cache *cache = walk->cache;
	uint32_t index;

	for (index = first; index; index = cache->block[index].next)
		if (cache->is_free[index] != (cache->block[index].state == CM_BLOCK_FREE))
			return cm_why_set(&walk->why, "block %u of state %u is marked as %s", index,
					  cache->block[index].state,
					  cache->is_free[index] ? "free" : "not free");
	return true;
}

static void add_to_sum(struct device_sum *sum, enum cm_pool pool, enum cm_stat stat, uint64_t n)
{
	sum->stat[CM_POOL_ALL][stat] += (int64_t)n;
	sum->stat[pool][stat] += (int64_t)n;
}

static void add_block(struct walk *walk, const struct cm_segment *segment,
		      const struct cm_block *block)
{
	struct device_sum *sum = &walk->device[segment->device];
	struct heap_sum *heap = &walk->heap[segment->heap];
	enum cm_pool pool = cm_segment_pool(segment);

	if (block->state == CM_BLOCK_FREE) {
		if (cm_segment_is_recycled(walk->cache, segment))
			heap->free_blocks[cm_segment_pool(segment)]++;
		if (segment->busy) {
			add_to_sum(sum, pool, CM_STAT_INACTIVE_SPLIT, 1);
			add_to_sum(sum, pool, CM_STAT_INACTIVE_SPLIT_BYTES, block->size);
		}
		return;
	}
	add_to_sum(sum, pool, CM_STAT_ACTIVE, 1);
	add_to_sum(sum, pool, CM_STAT_ACTIVE_BYTES, block->size);
	add_to_sum(sum, pool, CM_STAT_REQUESTED_BYTES, block->requested);
	if (block->state == CM_BLOCK_PENDING) {
		heap->pending_blocks++;
		heap->pending_bytes += block->size;
		return;
	}
	heap->live_bytes += block->size;
	add_to_sum(sum, pool, CM_STAT_ALLOCATION, 1);
	add_to_sum(sum, pool, CM_STAT_ALLOCATED_BYTES, block->size);
	if (block->size >= walk->cache->policy.max_split_size)
		sum->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS]++;
}

static bool check_pages(struct walk *walk, uint32_t s)
{
	const struct cm_segment *segment = &walk->cache->segment[s];
	uint64_t addr, end = segment->addr + segment->size;
	const struct cm_page *page;

	for (addr = segment->addr; addr < end; addr += CM_PAGE_BYTES) {
		page = cm_page_map_look(&walk->cache->pages, addr);
		if (!page || page->owner != segment->device + 1 ||
		    (page->device != page->owner && page->device != CM_PAGE_MIXED))
			return cm_why_set(&walk->why, "the page map does not know segment %u", s);
	}
	return true;
}

static bool check_segment_row(struct walk *walk, uint32_t s)
{
	struct cm_cache *cache = walk->cache;
	const struct cm_segment *segment = &cache->segment[s];
	const struct cm_heap *heap;

	if (segment->heap >= atomic_load(&cache->heaps))
		return cm_why_set(&walk->why, "segment %u belongs to heap %u", s, segment->heap);
	heap = cm_segment_heap(cache, segment);
	if (!heap->ctx || heap->ctx != segment->context || heap->device->index != segment->device)
		return cm_why_set(&walk->why, "segment %u is not of its heap's context", s);
	if (segment->flags & (CM_SEGMENT_EXACT | CM_SEGMENT_DIRECT) && segment->blocks != 1)
		return cm_why_set(&walk->why, "segment %u is of one piece and has %u blocks", s,
				  segment->blocks);
	return check_pages(walk, s);
}

/* The row and its one block are accounted for; the rest is cm_check_pinned's. Registered memory is
 * the program's and may overlap. */
static bool meet_host_segment(struct walk *walk, uint32_t s)
{
	const struct cm_segment *segment = &walk->cache->segment[s];
	uint32_t index = segment->first;

	if (!index || index >= walk->cache->blocks || walk->seen[index] != SEEN_NOWHERE)
		return cm_why_set(&walk->why, "host segment %u: block %u is not its own", s, index);
	walk->seen[index] = SEEN_IN_SEGMENT;
	walk->range[walk->ranges++] = segment->flags & CM_SEGMENT_REGISTERED
					      ? (struct range){0, 0}
					      : (struct range){segment->addr, segment->size};
	return true;
}

static bool check_segment(struct walk *walk, uint32_t s)
{
	struct cm_cache *cache = walk->cache;
	const struct cm_segment *segment = &cache->segment[s];
	struct device_sum *sum = &walk->device[segment->device];
	uint64_t addr = segment->addr;
	uint32_t index, before = 0, blocks = 0, busy = 0;

	if (!check_segment_row(walk, s))
		return false;
	for (index = segment->first; index; index = cache->block[index].next) {
		if (!check_block(walk, s, index, before, addr))
			return false;
		add_block(walk, segment, &cache->block[index]);
		addr += cache->block[index].size;
		before = index;
		blocks++;
		busy += cache->block[index].state != CM_BLOCK_FREE;
	}
	if (addr != segment->addr + segment->size || blocks != segment->blocks)
		return cm_why_set(
			&walk->why, "segment %u: %u blocks of %llu bytes stand for %u of %llu", s,
			blocks, (ull)(addr - segment->addr), segment->blocks, (ull)segment->size);
	if (busy != segment->busy)
		return cm_why_set(&walk->why, "segment %u: %u blocks are not free, not %u", s, busy,
				  segment->busy);
	if (!check_is_free(walk, segment->first))
		return false;
	if (segment->flags & CM_SEGMENT_PAGED)
		walk->heap[segment->heap].paged_bytes[cm_segment_pool(segment)] += segment->size;
	add_to_sum(sum, cm_segment_pool(segment), CM_STAT_SEGMENT, 1);
	add_to_sum(sum, cm_segment_pool(segment), CM_STAT_RESERVED_BYTES, segment->size);
	if (segment->size >= cache->policy.max_split_size && !(segment->flags & CM_SEGMENT_PAGED))
		sum->stat1[CM_STAT1_OVERSIZE_SEGMENTS]++;
	walk->range[walk->ranges++] = (struct range){segment->addr, segment->size};
	return true;
}

static int by_addr(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static bool check_segments(struct walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t s, spares = 0, i;

	for (s = 1; s < cache->segments; s++)
		if (cache->segment[s].flags & CM_SEGMENT_USED &&
		    !(cache->segment[s].flags & CM_SEGMENT_HOST ? meet_host_segment(walk, s)
								: check_segment(walk, s)))
			return false;
	qsort(walk->range, walk->ranges, sizeof(walk->range[0]), by_addr);
	for (i = 1; i < walk->ranges; i++)
		if (walk->range[i].addr - walk->range[i - 1].addr < walk->range[i - 1].size)
			return cm_why_set(&walk->why, "two segments overlap at %#llx",
					  (ull)walk->range[i].addr);
	for (s = cache->spare_segment; s && spares < cache->segments; s = cache->segment[s].first)
		spares++;
	if (walk->ranges + spares + 1 != cache->segments)
		return cm_why_set(&walk->why, "%u segment rows are in use, %u spare, of %u",
				  walk->ranges, spares, cache->segments);
	return true;
}

/* Every row belongs to a segment, or is a spare row of a device. */
static bool check_spares(struct walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t i, index, n = atomic_load(&cache->devices);

	for (i = 0; i < n; i++)
		for (index = cache->device[i]->spare_block; index;
		     index = cache->block[index].link_next) {
			if (index >= cache->blocks || walk->seen[index] != SEEN_NOWHERE)
				return cm_why_set(&walk->why, "spare block row %u is in use",
						  index);
			walk->seen[index] = SEEN_SPARE;
		}
	for (index = CM_SPARE_BATCH; index < cache->blocks; index++)
		if (walk->seen[index] == SEEN_NOWHERE)
			return cm_why_set(&walk->why, "block row %u is lost", index);
	return true;
}

/* --- heaps and their epochs --------------------------------------------------------------- */

static bool check_epoch(struct walk *walk, const struct cm_heap *heap, const struct cm_batch *epoch)
{
	const struct cm_block *block = walk->cache->block;
	uint64_t blocks = 0, bytes = 0;
	uint32_t index;

	for (index = epoch->list.first; index; index = block[index].link_next) {
		if (index >= walk->cache->blocks || walk->seen[index] != SEEN_IN_SEGMENT ||
		    block[index].state != CM_BLOCK_PENDING ||
		    cm_segment_heap(walk->cache, &walk->cache->segment[block[index].segment]) !=
			    heap)
			return cm_why_set(&walk->why,
					  "block %u is in epoch %llu of heap %u by mistake", index,
					  (ull)epoch->number, heap->index);
		walk->seen[index] = SEEN_IN_EPOCH;
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
static bool check_ring(struct walk *walk, const struct cm_heap *heap,
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

static bool check_epochs(struct walk *walk, const struct cm_heap *heap)
{
	const struct heap_sum *sum = &walk->heap[heap->index];
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

static bool check_state(struct walk *walk, const struct cm_heap *heap)
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

static bool check_heap(struct walk *walk, const struct cm_heap *heap)
{
	const struct heap_sum *sum = &walk->heap[heap->index];
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

static bool check_heaps(struct walk *walk)
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

/* --- the counters ---------------------------------------------------------------------------- */

static const char *stat_name(uint32_t stat)
{
	static const char *const name[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) returned,
#include "stats/counters.def"
	};

	return name[stat];
}

static bool check_family(struct walk *walk, const char *name, const struct cm_stat4 *is,
			 int64_t current, bool reset)
{
	if (is->current != current)
		return cm_why_set(&walk->why, "%s is %lld, the rows make %lld", name,
				  (long long)is->current, (long long)current);
	if (is->peak < is->current)
		return cm_why_set(&walk->why, "%s is %lld above its peak", name,
				  (long long)(is->current - is->peak));
	if (!reset && is->current != is->allocated - is->freed)
		return cm_why_set(&walk->why, "%s is %lld, not %lld less %lld", name,
				  (long long)is->current, (long long)is->allocated,
				  (long long)is->freed);
	return true;
}

static bool check_stat(struct walk *walk, const struct cm_device *device, uint32_t stat)
{
	const struct device_sum *sum = &walk->device[device->index];
	struct cm_stat4 is;
	uint32_t pool;

	for (pool = 0; pool < CM_POOL_COUNT; pool++) {
		is = cm_stat_read(device->row, (enum cm_pool)pool, stat);
		/* A segment that came from another shard was allocated there. */
		if (!check_family(walk, stat_name(stat), &is, sum->stat[pool][stat],
				  device->reset || cm_device_has_shards(device)))
			return false;
	}
	return true;
}

/* The sums over all shards, which are stopped. */
static bool check_sums(struct walk *walk, struct cm_device *first)
{
	const struct cm_device_row *row = cm_shards_sum_locked(first);
	const uint64_t reserved = atomic_load(&first->reserved);
	struct cm_stat4 is;
	uint32_t pool, stat;

	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++) {
			is = cm_stat_read(row, (enum cm_pool)pool, stat);
			if (!check_family(walk, stat_name(stat), &is, is.current, first->reset))
				return false;
		}
	return reserved == (uint64_t)cm_stat_current(row, CM_STAT_RESERVED_BYTES) ||
	       cm_why_set(&walk->why, "device %u: %llu bytes are reserved by its own count",
			  first->index, (ull)reserved);
}

/* While memory is on its way to or from the driver, more is taken than counted. */
static bool check_taken(struct walk *walk, const struct cm_device *device)
{
	const uint64_t taken = atomic_load(&device->taken_bytes);
	const struct cm_device *each = device;
	uint64_t counted = 0;
	uint32_t kind;

	if (!cm_device_is_first(device))
		return true;
	for (; each; each = cm_device_next_shard(each))
		counted += cm_device_reserved_locked(each);
	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++)
		counted += (uint64_t)device->row->other_bytes[kind].current;
	return taken >= counted ||
	       cm_why_set(&walk->why,
			  "device %u: %llu bytes are taken from the limit, %llu are "
			  "counted",
			  device->index, (ull)taken, (ull)counted);
}

static bool check_counters(struct walk *walk, struct cm_device *device)
{
	const struct device_sum *sum = &walk->device[device->index];
	uint32_t stat;

	if (device->row->seq & 1)
		return cm_why_set(&walk->why, "device %u is in the middle of a change",
				  device->index);
	if (device->row->heaps != sum->heaps)
		return cm_why_set(&walk->why, "device %u has %u heaps, not %u", device->index,
				  sum->heaps, device->row->heaps);
	if (!check_taken(walk, device))
		return false;
	for (stat = 0; stat < CM_STAT_COUNT; stat++)
		if (!check_stat(walk, device, stat))
			return false;
	if (cm_device_is_first(device) && !check_sums(walk, device))
		return false;
	return check_family(walk, "oversize_allocations",
			    &device->row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS],
			    sum->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], device->reset) &&
	       check_family(walk, "oversize_segments",
			    &device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS],
			    sum->stat1[CM_STAT1_OVERSIZE_SEGMENTS], device->reset);
}

static bool check_all(struct walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t i, n = atomic_load(&cache->devices);

	if (!check_segments(walk) || !check_spares(walk) || !check_heaps(walk))
		return false;
	for (i = 0; i < n; i++)
		if (!check_counters(walk, cache->device[i]))
			return false;
	return cm_check_pinned(cache, &walk->why);
}

/* With all locks held except the slow ones, which guard no data. */
static int check_locked(struct cm_cache *cache, char *why, size_t why_bytes)
{
	size_t ranges = cache->segments * sizeof(struct range);
	size_t bytes = sizeof(struct walk) + ranges + cache->blocks;
	struct walk *walk = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
	bool ok;

	if (walk == MAP_FAILED)
		return -ENOMEM;
	walk->cache = cache;
	walk->why = (struct cm_why){why, why_bytes};
	walk->range = (struct range *)(walk + 1);
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
