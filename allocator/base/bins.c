/* SPDX-License-Identifier: MIT */
#include "allocator/base/bins.h"

#include <string.h>

void cm_bins_init(struct cm_bins *bins, struct cm_block *table)
{
	memset(bins, 0, sizeof(*bins));
	bins->block = table;
}

/* The first block of at least `size` bytes among the first `steps` blocks of a bin; 0: none. */
CM_ALWAYS_INLINE uint32_t look(const struct cm_bins *bins, uint32_t bin, uint64_t size,
			       uint32_t steps)
{
	uint32_t index = bins->head[bin];

	for (; index && steps; index = bins->block[index].link_next, steps--)
		if (bins->block[index].size >= size)
			return index;
	return 0;
}

struct cm_bins_found cm_bins_find_wide(const struct cm_bins *bins, uint32_t bin, uint64_t size)
{
	uint32_t found, next, above;

	if (bin >= CM_BINS_COUNT)
		return cm_bins_at(bins, 0, 0);
	found = look(bins, bin, size, 2 * CM_BINS_LOOK_WIDE);
	if (found)
		return cm_bins_at(bins, found, bins->head[bin] == found ? bin : 0);
	next = cm_bins_next(bins, bin + 1);
	above = next < CM_BINS_COUNT ? bins->head[next] : 0;
	if (above && bins->block[above].size - size <= size / CM_BINS_FINE)
		return cm_bins_at(bins, above, next);
	/* Looks at every block of its own bin: a block of a larger bin could waste more than the
	 * width of that bin. */
	found = look(bins, bin, size, UINT32_MAX);
	return found ? cm_bins_at(bins, found, 0) : cm_bins_at(bins, above, next);
}

static uint32_t highest(uint64_t bits)
{
	return 63u - (uint32_t)__builtin_clzll(bits);
}

uint32_t cm_bins_largest(const struct cm_bins *bins)
{
	uint32_t top = CM_BINS_TOPS - 1, word;

	while (top && !bins->top[top])
		top--;
	if (!bins->top[top])
		return 0;
	word = top * 64 + highest(bins->top[top]);
	return bins->head[word * 64 + highest(bins->map[word])];
}
