/* SPDX-License-Identifier: MIT */
/*
 * The pinned memory's part of cm_cache_check.
 */
#include "allocator/check/check.h"
#include "allocator/pinned/pinned.h"

#include <stddef.h>

typedef unsigned long long ull;

struct pinned_sum {
	int64_t blocks[CM_BLOCK_FREE + 1]; /* by state, registered ones left out */
	int64_t bytes[CM_BLOCK_FREE + 1];
	int64_t passed_on; /* of the ready ones */
	int64_t registered;
	int64_t registered_bytes;
};

static bool check_pinned_block(const struct cm_cache *cache, uint32_t s, const struct cm_why *why)
{
	const struct cm_segment *segment = &cache->segment[s];
	const struct cm_block *block = &cache->block[segment->first];
	const struct cm_heap *heap = segment->heap < atomic_load(&cache->heaps)
					     ? atomic_load(&cache->heap[segment->heap])
					     : NULL;

	if (!heap || !heap->ctx || heap->ctx != segment->context ||
	    segment->device != CM_DEVICE_NONE)
		return cm_why_set(why, "host segment %u is of heap %u and device %u", s,
				  segment->heap, segment->device);
	if (segment->blocks != 1 || block->segment != s || block->addr != segment->addr ||
	    block->size != segment->size || cm_block_is_split(block))
		return cm_why_set(why, "host segment %u is not the one of block %u", s,
				  segment->first);
	if (cm_ptr_map_find(&cache->pinned.map, block->addr) != segment->first)
		return cm_why_set(why, "the map of pinned memory does not know block %u",
				  segment->first);
	if (block->state == CM_BLOCK_NONE || block->state > CM_BLOCK_FREE)
		return cm_why_set(why, "host block %u is in state %u", segment->first,
				  block->state);
	if (block->state != CM_BLOCK_FREE && (!block->requested || block->requested > block->size))
		return cm_why_set(why, "host block %u of %llu bytes serves %llu", segment->first,
				  (ull)block->size, (ull)block->requested);
	return true;
}

static bool sum_segments(const struct cm_cache *cache, struct pinned_sum *sum,
			 const struct cm_why *why)
{
	const uint32_t host = CM_SEGMENT_USED | CM_SEGMENT_HOST;
	uint64_t n = 0;
	uint32_t s;

	for (s = 1; s < cache->segments; s++) {
		const struct cm_segment *segment = &cache->segment[s];

		if ((segment->flags & host) != host)
			continue;
		if (!check_pinned_block(cache, s, why))
			return false;
		n++;
		if (segment->flags & CM_SEGMENT_REGISTERED) {
			sum->registered++;
			sum->registered_bytes += (int64_t)segment->size;
		} else {
			sum->blocks[cache->block[segment->first].state]++;
			sum->bytes[cache->block[segment->first].state] += (int64_t)segment->size;
			sum->passed_on += cache->block[segment->first].state == CM_BLOCK_FREE &&
					  segment->flags & CM_SEGMENT_DIRECT;
		}
	}
	if (n != cache->pinned.map.count)
		return cm_why_set(why, "%llu host segments, %llu in the map", (ull)n,
				  (ull)cache->pinned.map.count);
	return true;
}

static bool check_batch(const struct cm_cache *cache, const struct cm_batch *batch, int64_t *blocks,
			const struct cm_why *why)
{
	const struct cm_block *block = cache->block;
	uint32_t index, prev = 0;
	uint64_t bytes = 0;

	for (index = batch->list.first; index; index = block[index].link_next) {
		if (index >= cache->blocks || block[index].state != CM_BLOCK_PENDING ||
		    block[index].age != (uint32_t)batch->number || block[index].link_prev != prev)
			return cm_why_set(why, "host block %u is in batch %llu by mistake", index,
					  (ull)batch->number);
		bytes += block[index].size;
		prev = index;
		(*blocks)++;
	}
	if (prev != batch->list.last || bytes != batch->bytes)
		return cm_why_set(why, "batch %llu states %llu bytes and holds %llu",
				  (ull)batch->number, (ull)batch->bytes, (ull)bytes);
	return true;
}

static bool check_batches(const struct cm_cache *cache, const struct pinned_sum *sum,
			  const struct cm_why *why)
{
	const struct cm_batch_ring *ring = &cache->pinned.batches;
	int64_t blocks = 0;
	uint64_t number;

	for (number = ring->oldest; number < ring->open.number; number++) {
		const struct cm_batch *batch = &ring->closed[number & (CM_BATCHES_MAX - 1)];

		if (batch->number != number)
			return cm_why_set(why, "batch %llu stands in the place of %llu",
					  (ull)batch->number, (ull)number);
		if (!check_batch(cache, batch, &blocks, why))
			return false;
	}
	if (!check_batch(cache, &ring->open, &blocks, why))
		return false;
	return blocks == sum->blocks[CM_BLOCK_PENDING] ||
	       cm_why_set(why, "%lld host blocks wait, the batches hold %lld",
			  (long long)sum->blocks[CM_BLOCK_PENDING], (long long)blocks);
}

/* The ready blocks of one heap, kind and class. */
static bool check_ready(const struct cm_cache *cache, uint32_t heap, uint32_t kind, uint32_t class,
			int64_t *blocks, const struct cm_why *why)
{
	const struct cm_block *block = cache->block;
	uint32_t index = atomic_load(&cache->heap[heap])->pinned[kind][class], prev = 0;

	for (; index; index = block[index].link_next) {
		const struct cm_segment *segment = &cache->segment[block[index].segment];

		if (index >= cache->blocks || block[index].state != CM_BLOCK_FREE ||
		    block[index].link_prev != prev || segment->heap != heap ||
		    segment->flags & CM_SEGMENT_DIRECT ||
		    segment->flags >> CM_SEGMENT_KIND_SHIFT != kind ||
		    block[index].size < cm_pinned_class_bytes(class) ||
		    cm_pinned_class(block[index].size + 1) <= class)
			return cm_why_set(why, "host block %u is ready in class %u by mistake",
					  index, class);
		prev = index;
		(*blocks)++;
	}
	return true;
}

static bool check_lists(const struct cm_cache *cache, const struct pinned_sum *sum,
			const struct cm_why *why)
{
	uint32_t heap, kind, class, index, older = 0, n = atomic_load(&cache->heaps);
	int64_t ready = 0, aged = 0;

	for (heap = 0; heap < n; heap++)
		for (kind = 0; kind < CM_HOST_KINDS; kind++)
			for (class = 0; class < CM_PINNED_CLASSES; class ++)
				if (!check_ready(cache, heap, kind, class, &ready, why))
					return false;
	for (index = cache->pinned.aged.first; index; index = cache->block[index].aged[1]) {
		if (cache->block[index].state != CM_BLOCK_FREE ||
		    cache->block[index].aged[0] != older)
			return cm_why_set(why, "host block %u is out of order", index);
		older = index;
		aged++;
	}
	if (older != cache->pinned.aged.last || ready != aged - sum->passed_on ||
	    aged != sum->blocks[CM_BLOCK_FREE])
		return cm_why_set(why, "%lld host blocks are ready, %lld are listed, %lld by age",
				  (long long)sum->blocks[CM_BLOCK_FREE], (long long)ready,
				  (long long)aged);
	return true;
}

static bool check_pinned_counters(const struct cm_cache *cache, const struct pinned_sum *sum,
				  const struct cm_why *why)
{
	const struct cm_host_row *row = cache->pinned.row;
	const int64_t *n = sum->blocks, *b = sum->bytes;
	const struct {
		const char *name;
		const struct cm_stat4 *is;
		int64_t current;
	} family[] = {
		{"allocated", &row->allocated, n[CM_BLOCK_LIVE]},
		{"allocated_bytes", &row->allocated_bytes, b[CM_BLOCK_LIVE]},
		{"active", &row->active, n[CM_BLOCK_LIVE] + n[CM_BLOCK_PENDING]},
		{"active_bytes", &row->active_bytes, b[CM_BLOCK_LIVE] + b[CM_BLOCK_PENDING]},
		{"segment", &row->segment,
		 n[CM_BLOCK_LIVE] + n[CM_BLOCK_PENDING] + n[CM_BLOCK_FREE]},
		{"reserved_bytes", &row->reserved_bytes,
		 b[CM_BLOCK_LIVE] + b[CM_BLOCK_PENDING] + b[CM_BLOCK_FREE]},
		{"registered", &row->registered, sum->registered},
		{"registered_bytes", &row->registered_bytes, sum->registered_bytes},
	};
	size_t i;

	if (row->seq & 1)
		return cm_why_set(why, "pinned memory is in the middle of a change");
	for (i = 0; i < sizeof(family) / sizeof(family[0]); i++) {
		const struct cm_stat4 *is = family[i].is;

		if (is->current != family[i].current || is->peak < is->current ||
		    (!cache->pinned.reset && is->current != is->allocated - is->freed))
			return cm_why_set(why,
					  "host %s is %lld (peak %lld, %lld less %lld), the rows "
					  "make %lld",
					  family[i].name, (long long)is->current,
					  (long long)is->peak, (long long)is->allocated,
					  (long long)is->freed, (long long)family[i].current);
	}
	return true;
}

bool cm_check_pinned(const struct cm_cache *cache, const struct cm_why *why)
{
	struct pinned_sum sum = {0};

	return sum_segments(cache, &sum, why) && check_batches(cache, &sum, why) &&
	       check_lists(cache, &sum, why) && check_pinned_counters(cache, &sum, why);
}
