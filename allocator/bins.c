/* SPDX-License-Identifier: MIT */
#include "allocator/bins.h"

#include <string.h>

#include "allocator/size_class.h"

static uint64_t grains(const struct cm_bins *bins, uint32_t index)
{
	return bins->block[index].size >> CM_GRAIN_SHIFT;
}

static uint32_t bin_of(uint64_t n)
{
	uint32_t exponent;

	if (n < CM_BINS_EXACT)
		return (uint32_t)n;
	exponent = 63u - (uint32_t)__builtin_clzll(n);
	return CM_BINS_EXACT + (exponent - 12u) * CM_BINS_FINE +
	       (uint32_t)((n >> (exponent - 5u)) & (CM_BINS_FINE - 1u));
}

/* The bits in which the sizes of n's bin differ, moved to the top. */
static uint64_t varying_bits(uint64_t n)
{
	return n << ((uint32_t)__builtin_clzll(n) + 6u);
}

void cm_bins_init(struct cm_bins *bins, struct cm_block *table)
{
	memset(bins, 0, sizeof(*bins));
	bins->block = table;
}

static void mark(struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = bin >> 6;

	bins->map[word] |= UINT64_C(1) << (bin & 63);
	bins->top[word >> 6] |= UINT64_C(1) << (word & 63);
}

static void unmark(struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = bin >> 6;

	bins->map[word] &= ~(UINT64_C(1) << (bin & 63));
	if (!bins->map[word])
		bins->top[word >> 6] &= ~(UINT64_C(1) << (word & 63));
}

/* The first bin from `bin` on that is not empty, or CM_BINS_COUNT. */
static uint32_t next_bin(const struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = bin >> 6, half;
	uint64_t bits;

	if (bin >= CM_BINS_COUNT)
		return CM_BINS_COUNT;
	bits = bins->map[word] & (~UINT64_C(0) << (bin & 63));
	if (bits)
		return word * 64 + (uint32_t)__builtin_ctzll(bits);
	word++;
	for (half = word >> 6; half < 2; half++) {
		bits = bins->top[half];
		if (half == word >> 6)
			bits &= ~UINT64_C(0) << (word & 63);
		if (bits) {
			word = half * 64 + (uint32_t)__builtin_ctzll(bits);
			return word * 64 + (uint32_t)__builtin_ctzll(bins->map[word]);
		}
	}
	return CM_BINS_COUNT;
}

static void list_push(struct cm_bins *bins, uint32_t bin, uint32_t index)
{
	struct cm_block *block = &bins->block[index];
	uint32_t old = bins->head[bin];

	block->link_prev = 0;
	block->link_next = old;
	if (old)
		bins->block[old].link_prev = index;
	bins->head[bin] = index;
}

static void list_remove(struct cm_bins *bins, uint32_t bin, uint32_t index)
{
	const struct cm_block *block = &bins->block[index];

	if (block->link_prev)
		bins->block[block->link_prev].link_next = block->link_next;
	else
		bins->head[bin] = block->link_next;
	if (block->link_next)
		bins->block[block->link_next].link_prev = block->link_prev;
}

/* Makes `index` a node of its own, ring of one. */
static void node_init(struct cm_block *block, uint32_t index, uint32_t parent)
{
	block->child[0] = 0;
	block->child[1] = 0;
	block->parent = parent;
	block->link_prev = index;
	block->link_next = index;
}

static void ring_push(struct cm_bins *bins, uint32_t node, uint32_t index)
{
	struct cm_block *at = &bins->block[node], *block = &bins->block[index];

	block->parent = CM_BLOCK_IN_RING;
	block->link_prev = node;
	block->link_next = at->link_next;
	bins->block[at->link_next].link_prev = index;
	at->link_next = index;
}

static void tree_insert(struct cm_bins *bins, uint32_t bin, uint32_t index)
{
	uint64_t n = grains(bins, index), bits = varying_bits(n);
	uint32_t node = bins->head[bin], *slot;

	if (!node) {
		node_init(&bins->block[index], index, 0);
		bins->head[bin] = index;
		return;
	}
	while (grains(bins, node) != n) {
		slot = &bins->block[node].child[bits >> 63];
		bits <<= 1;
		if (!*slot) {
			*slot = index;
			node_init(&bins->block[index], index, node);
			return;
		}
		node = *slot;
	}
	ring_push(bins, node, index);
}

/* Puts `by` (0: nothing) where `node` hangs. */
static void tree_replace(struct cm_bins *bins, uint32_t bin, uint32_t node, uint32_t by)
{
	uint32_t parent = bins->block[node].parent;

	if (!parent)
		bins->head[bin] = by;
	else
		bins->block[parent].child[bins->block[parent].child[1] == node] = by;
	if (by)
		bins->block[by].parent = parent;
}

/* Takes a leaf below `node` off the tree, so that it can stand in for it; 0 where there is none. */
static uint32_t tree_take_leaf(struct cm_bins *bins, uint32_t node)
{
	uint32_t leaf = node, *slot = NULL;

	while (bins->block[leaf].child[0] || bins->block[leaf].child[1]) {
		slot = &bins->block[leaf].child[bins->block[leaf].child[1] != 0];
		leaf = *slot;
	}
	if (!slot)
		return 0;
	*slot = 0;
	return leaf;
}

static void tree_remove(struct cm_bins *bins, uint32_t bin, uint32_t index)
{
	struct cm_block *block = &bins->block[index];
	uint32_t by, side;

	if (block->link_next != index) {
		bins->block[block->link_next].link_prev = block->link_prev;
		bins->block[block->link_prev].link_next = block->link_next;
		if (block->parent == CM_BLOCK_IN_RING)
			return;
		by = block->link_next;
	} else {
		by = tree_take_leaf(bins, index);
	}
	tree_replace(bins, bin, index, by);
	if (!by)
		return;
	for (side = 0; side < 2; side++) {
		bins->block[by].child[side] = block->child[side];
		if (block->child[side])
			bins->block[block->child[side]].parent = by;
	}
}

void cm_bins_insert(struct cm_bins *bins, uint32_t index)
{
	uint32_t bin = bin_of(grains(bins, index));

	if (bin < CM_BINS_EXACT)
		list_push(bins, bin, index);
	else
		tree_insert(bins, bin, index);
	mark(bins, bin);
	bins->blocks++;
	bins->bytes += bins->block[index].size;
}

void cm_bins_remove(struct cm_bins *bins, uint32_t index)
{
	uint32_t bin = bin_of(grains(bins, index));

	if (bin < CM_BINS_EXACT)
		list_remove(bins, bin, index);
	else
		tree_remove(bins, bin, index);
	if (!bins->head[bin])
		unmark(bins, bin);
	bins->blocks--;
	bins->bytes -= bins->block[index].size;
}

/* The smallest size in the tree: always on the path of smaller children. */
static uint32_t tree_smallest(const struct cm_bins *bins, uint32_t node)
{
	uint32_t best = node;

	while (node) {
		if (bins->block[node].size < bins->block[best].size)
			best = node;
		node = bins->block[node].child[bins->block[node].child[0] == 0];
	}
	return best;
}

/*
 * The smallest size of at least n in the tree of n's own bin. Going down n's path, whatever hangs
 * to the right of the lowest left turn holds only larger sizes, and the smallest of them.
 */
static uint32_t tree_find(const struct cm_bins *bins, uint32_t node, uint64_t n)
{
	uint64_t bits = varying_bits(n), size;
	uint32_t best = 0, right = 0, next, smallest;

	while (node) {
		size = grains(bins, node);
		if (size >= n && (!best || size < grains(bins, best)))
			best = node;
		if (size == n)
			return best;
		next = bins->block[node].child[bits >> 63];
		if (!(bits >> 63) && bins->block[node].child[1])
			right = bins->block[node].child[1];
		bits <<= 1;
		node = next;
	}
	if (right) {
		smallest = tree_smallest(bins, right);
		if (!best || bins->block[smallest].size < bins->block[best].size)
			best = smallest;
	}
	return best;
}

/* Of equal sizes the one behind the node comes off the tree at no cost. */
static uint32_t from_ring(const struct cm_bins *bins, uint32_t node)
{
	return node ? bins->block[node].link_next : 0;
}

uint32_t cm_bins_find(const struct cm_bins *bins, uint64_t size)
{
	uint64_t n = (size + CM_GRAIN - 1) >> CM_GRAIN_SHIFT;
	uint32_t bin = bin_of(n), found;

	if (bin >= CM_BINS_EXACT && bin < CM_BINS_COUNT) {
		found = tree_find(bins, bins->head[bin], n);
		if (found)
			return from_ring(bins, found);
		bin++;
	}
	bin = next_bin(bins, bin);
	if (bin == CM_BINS_COUNT)
		return 0;
	if (bin < CM_BINS_EXACT)
		return bins->head[bin];
	return from_ring(bins, tree_smallest(bins, bins->head[bin]));
}

static uint32_t last_bin(const struct cm_bins *bins)
{
	uint32_t half = bins->top[1] ? 1 : 0, word;

	if (!bins->top[half])
		return CM_BINS_COUNT;
	word = half * 64 + 63 - (uint32_t)__builtin_clzll(bins->top[half]);
	return word * 64 + 63 - (uint32_t)__builtin_clzll(bins->map[word]);
}

uint32_t cm_bins_largest(const struct cm_bins *bins)
{
	uint32_t bin = last_bin(bins), node, best;

	if (bin == CM_BINS_COUNT || bin < CM_BINS_EXACT)
		return bin == CM_BINS_COUNT ? 0 : bins->head[bin];
	for (node = best = bins->head[bin]; node;
	     node = bins->block[node].child[bins->block[node].child[1] != 0])
		if (bins->block[node].size > bins->block[best].size)
			best = node;
	return best;
}
