/* SPDX-License-Identifier: MIT */
/*
 * The part of cm_cache_check that walks segments and their blocks, and sums up what they have.
 */
#include "allocator/check/check_walk.h"

#include <stdlib.h>

typedef unsigned long long ull;

/* A block in use is found by its address, and no other block is. The cell of one that was in use
 * before still names it. A driver allocation of less than CM_GRAIN may share its cell. */
static bool check_cell(struct cm_check_walk *walk, uint32_t index)
{
	const struct cm_block *block = &walk->cache->block[index];
	const struct cm_segment *segment = &walk->cache->segment[block->segment];
	const uint32_t found = cm_page_map_find(&walk->cache->pages, segment->device, block->addr);
	const bool direct = segment->flags & CM_SEGMENT_DIRECT;

	if (found != (block->state == CM_BLOCK_LIVE ? index : 0) && (found || !direct))
		return cm_why_set(&walk->why, "the page map has block %u in place of %u at %#llx",
				  found, index, (ull)block->addr);
	if (block->requested && !direct &&
	    !cm_page_map_names(&walk->cache->pages, block->addr, index))
		return cm_why_set(&walk->why, "the cell at %#llx does not name block %u",
				  (ull)block->addr, index);
	return true;
}

/* Whether the segment may have free neighbours, which no longer matter once it is not recycled. */
static bool may_be_apart(struct cm_cache *cache, const struct cm_segment *segment)
{
	return segment->flags & CM_SEGMENT_SMALL &&
	       (cm_segment_heap(cache, segment)->may_be_apart ||
		!cm_segment_is_recycled(cache, segment));
}

static bool check_block(struct cm_check_walk *walk, uint32_t s, uint32_t index, uint32_t before,
			uint64_t addr)
{
	const struct cm_block *block = &walk->cache->block[index];

	if (index >= walk->cache->blocks || walk->seen[index] != CM_SEEN_NOWHERE)
		return cm_why_set(&walk->why, "segment %u: block %u is not its own", s, index);
	walk->seen[index] = CM_SEEN_IN_SEGMENT;
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
		    !may_be_apart(walk->cache, &walk->cache->segment[s]))
			return cm_why_set(&walk->why, "blocks %u and %u are free neighbours",
					  before, index);
		return check_cell(walk, index);
	default:
		return cm_why_set(&walk->why, "block %u is in state %u", index, block->state);
	}
}

static bool check_is_free(struct cm_check_walk *walk, uint32_t first)
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

static void add_to_sum(struct cm_check_device *sum, enum cm_pool pool, enum cm_stat stat,
		       uint64_t n)
{
	sum->stat[CM_POOL_ALL][stat] += (int64_t)n;
	sum->stat[pool][stat] += (int64_t)n;
}

static void add_block(struct cm_check_walk *walk, const struct cm_segment *segment,
		      const struct cm_block *block)
{
	struct cm_check_device *sum = &walk->device[segment->device];
	struct cm_check_heap *heap = &walk->heap[segment->heap];
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

static bool check_pages(struct cm_check_walk *walk, uint32_t s)
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

static bool check_segment_row(struct cm_check_walk *walk, uint32_t s)
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
static bool meet_host_segment(struct cm_check_walk *walk, uint32_t s)
{
	const struct cm_segment *segment = &walk->cache->segment[s];
	uint32_t index = segment->first;

	if (!index || index >= walk->cache->blocks || walk->seen[index] != CM_SEEN_NOWHERE)
		return cm_why_set(&walk->why, "host segment %u: block %u is not its own", s, index);
	walk->seen[index] = CM_SEEN_IN_SEGMENT;
	walk->range[walk->ranges++] = segment->flags & CM_SEGMENT_REGISTERED
					      ? (struct cm_check_range){0, 0}
					      : (struct cm_check_range){segment->addr,
									segment->size};
	return true;
}

static bool check_segment(struct cm_check_walk *walk, uint32_t s)
{
	struct cm_cache *cache = walk->cache;
	const struct cm_segment *segment = &cache->segment[s];
	struct cm_check_device *sum = &walk->device[segment->device];
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
	walk->range[walk->ranges++] = (struct cm_check_range){segment->addr, segment->size};
	return true;
}

static int by_addr(const void *a, const void *b)
{
	const struct cm_check_range *x = a, *y = b;

	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

bool cm_check_segments(struct cm_check_walk *walk)
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

/* What a device knows by address are blocks of its own, and stand where they are looked for. */
static bool check_recent(struct cm_check_walk *walk, struct cm_device *device)
{
	const struct cm_cache *cache = walk->cache;
	uint32_t i, index;

	for (i = 0; i < 1u << CM_RECENT_BITS; i++) {
		index = device->recent.row[i];
		if (index && (index >= cache->blocks || walk->seen[index] != CM_SEEN_IN_SEGMENT ||
			      cache->segment[cache->block[index].segment].device != device->index ||
			      cm_recent_at(&device->recent, cache->block[index].addr) !=
				      &device->recent.row[i]))
			return cm_why_set(&walk->why, "device row %u knows block %u by mistake",
					  device->index, index);
	}
	return true;
}

/* Every row belongs to a segment, or is a spare row of a device; and what these know by address. */
bool cm_check_spares(struct cm_check_walk *walk)
{
	struct cm_cache *cache = walk->cache;
	uint32_t i, index, n = atomic_load(&cache->devices);

	for (i = 0; i < n; i++)
		for (index = cache->device[i]->spare_block; index;
		     index = cache->block[index].link_next) {
			if (index >= cache->blocks || walk->seen[index] != CM_SEEN_NOWHERE)
				return cm_why_set(&walk->why, "spare block row %u is in use",
						  index);
			walk->seen[index] = CM_SEEN_SPARE;
		}
	for (index = CM_SPARE_BATCH; index < cache->blocks; index++)
		if (walk->seen[index] == CM_SEEN_NOWHERE)
			return cm_why_set(&walk->why, "block row %u is lost", index);
	for (i = 0; i < n; i++)
		if (!check_recent(walk, cache->device[i]))
			return false;
	return true;
}
