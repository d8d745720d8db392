/* SPDX-License-Identifier: MIT */
/*
 * The part of cm_cache_check that walks the bins: every free block is in the bin of its size, once.
 */
#include "allocator/check/check.h"

#include <string.h>

#include "allocator/base/size_class.h"

struct walk {
	const struct cm_heap *heap;
	const struct cm_bins *bins;
	const struct cm_why *why;
	enum cm_pool pool;
	uint64_t blocks;
};

/* The sizes, in grains, that belong into a bin: [least, end). */
static void sizes_of_bin(uint32_t bin, uint64_t *ret_least, uint64_t *ret_end)
{
	uint32_t step, fine;

	if (bin < CM_BINS_EXACT) {
		*ret_least = bin;
		*ret_end = bin + 1;
		return;
	}
	step = (bin - CM_BINS_EXACT) / CM_BINS_FINE + CM_BINS_EXACT_SHIFT - CM_BINS_FINE_SHIFT;
	fine = (bin - CM_BINS_EXACT) % CM_BINS_FINE;
	*ret_least = (uint64_t)(CM_BINS_FINE + fine) << step;
	*ret_end = (uint64_t)(CM_BINS_FINE + fine + 1) << step;
}

static bool check_member(struct walk *walk, uint32_t bin, uint32_t index)
{
	struct cm_cache *cache = walk->heap->cache;
	const struct cm_block *block = &cache->block[index];
	const struct cm_segment *segment;
	uint64_t least, end, grains;

	if (index >= cache->blocks || block->state != CM_BLOCK_FREE)
		return cm_why_set(walk->why, "block %u is in bin %u and is not free", index, bin);
	segment = &cache->segment[block->segment];
	grains = block->size >> CM_GRAIN_SHIFT;
	sizes_of_bin(bin, &least, &end);
	if (grains < least || grains >= end)
		return cm_why_set(walk->why, "block %u of %llu bytes is in bin %u", index,
				  (unsigned long long)block->size, bin);
	if (cm_segment_heap(cache, segment) != walk->heap || cm_segment_pool(segment) != walk->pool)
		return cm_why_set(walk->why, "block %u is in the bins of another heap or pool",
				  index);
	if (!cm_segment_is_recycled(cache, segment))
		return cm_why_set(walk->why, "block %u is in the bins, its segment not recycled",
				  index);
	/* A list that runs in circles ends here too. */
	if (++walk->blocks > cache->blocks)
		return cm_why_set(walk->why, "the bins hold more blocks than there are");
	return true;
}

static bool check_list(struct walk *walk, uint32_t bin)
{
	const struct cm_block *block = walk->bins->block;
	uint32_t index, before = 0;

	for (index = walk->bins->head[bin]; index; index = block[index].link_next) {
		if (!check_member(walk, bin, index))
			return false;
		if (before && block[index].link_prev != before)
			return cm_why_set(walk->why, "the list of bin %u is broken at block %u",
					  bin, index);
		before = index;
	}
	return true;
}

static bool check_bin(struct walk *walk, uint32_t bin)
{
	const struct cm_bins *bins = walk->bins;
	bool marked = bins->map[bin >> 6] >> (bin & 63) & 1;

	if (marked != (bins->head[bin] != 0))
		return cm_why_set(walk->why, "the bitmap is wrong about bin %u", bin);
	return check_list(walk, bin);
}

/* Most words are empty, and so must be their bins. */
static bool check_word(struct walk *walk, uint32_t word)
{
	static const uint32_t nothing[64];
	uint32_t bin = word * 64, end = bin + 64 < CM_BINS_COUNT ? bin + 64 : CM_BINS_COUNT;
	uint64_t map = walk->bins->map[word];

	if ((map != 0) != (walk->bins->top[word >> 6] >> (word & 63) & 1))
		return cm_why_set(walk->why, "the upper bitmap is wrong about word %u", word);
	if (!map && !memcmp(&walk->bins->head[bin], nothing, (end - bin) * sizeof(nothing[0])))
		return true;
	for (; bin < end; bin++)
		if (!check_bin(walk, bin))
			return false;
	return true;
}

bool cm_check_bins(const struct cm_heap *heap, enum cm_pool pool, const struct cm_why *why,
		   uint64_t *ret_blocks)
{
	struct walk walk = {.heap = heap, .bins = &heap->bins[pool], .why = why, .pool = pool};
	uint32_t word;

	for (word = 0; word < CM_BINS_WORDS; word++)
		if (!check_word(&walk, word))
			return false;
	*ret_blocks = walk.blocks;
	return true;
}
