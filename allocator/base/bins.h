/* SPDX-License-Identifier: MIT */
/*
 * The free blocks of one pool, by size: best fit in a handful of steps, for any number of blocks.
 *
 * Sizes below 16 MiB have a bin of their own, one for each multiple of 512 bytes. Above, each power
 * of two is cut into 128 bins, whose blocks differ by less than 1 %; there cannot be many of that
 * size. Two levels of bitmap find the first bin from one on that holds anything.
 *
 * A bin is a list through the block rows (stats/layout.h), in the order of sizes and then of
 * addresses, which is the order in which PyTorch prefers them: so what is reserved follows PyTorch
 * closely on real traces. Only a few steps are made to keep that order, since rows may be in no
 * processor cache. So of many equal blocks not always the lowest is taken, and of many in a wide
 * bin not always the smallest, but one that is larger by no more than the width of the bin. In the
 * small pool remainders, and blocks that merge late, go before all others of their size: what was
 * in use last is in the processor's caches.
 *
 * The first block of a bin does not say that none is before it: a request that takes the first one
 * would have to write the row of the next, which may be in no processor cache.
 *
 * Caller locks. Blocks are named by their index in the block table. Inline: every request and every
 * free runs through here several times.
 */
#ifndef CM_ALLOCATOR_BASE_BINS_H
#define CM_ALLOCATOR_BASE_BINS_H

#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/size_class.h"
#include "stats/layout.h"

#define CM_BINS_EXACT_SHIFT 15u
#define CM_BINS_EXACT       (1u << CM_BINS_EXACT_SHIFT) /* bins of one size each, in grains */
#define CM_BINS_FINE_SHIFT  7u
#define CM_BINS_FINE        (1u << CM_BINS_FINE_SHIFT) /* bins to a power of two above */
#define CM_BINS_COUNT    \
	(CM_BINS_EXACT + \
	 (51u - CM_BINS_EXACT_SHIFT) * CM_BINS_FINE) /* below 2^51 grains, 2^60 bytes */
#define CM_BINS_WORDS     ((CM_BINS_COUNT + 63u) / 64u)
#define CM_BINS_LOOK      2u /* steps for the place of a block in an exact bin */
#define CM_BINS_LOOK_WIDE 8u /* and in a wide one */

#define CM_BINS_TOPS (CM_BINS_WORDS / 64u + 1u)

struct cm_bins {
	struct cm_block *block;      /* the block table */
	uint64_t top[CM_BINS_TOPS];  /* bit w of all: map[w] is not 0 */
	uint64_t map[CM_BINS_WORDS]; /* bit b of all: bin b is not empty */
	uint32_t head[CM_BINS_COUNT];
};

void cm_bins_init(struct cm_bins *bins, struct cm_block *table);

/* `bytes` rounded up to whole grains: what cm_size_round makes of them by default. */
CM_ALWAYS_INLINE uint64_t cm_size_grains(uint64_t bytes)
{
	return (bytes + CM_GRAIN - 1) & ~(CM_GRAIN - 1);
}

/* The bin of a size in grains, at least 1; CM_BINS_COUNT or more if it is larger than all bins. */
CM_ALWAYS_INLINE uint32_t cm_bins_of(uint64_t grains)
{
	uint32_t exponent;

	if (CM_LIKELY(grains < CM_BINS_EXACT))
		return (uint32_t)grains;
	exponent = 63u ^ (uint32_t)__builtin_clzll(grains);
	/* The leading bit of what is shifted stands for CM_BINS_FINE bins. */
	return CM_BINS_EXACT - (CM_BINS_EXACT_SHIFT + 1u) * CM_BINS_FINE + exponent * CM_BINS_FINE +
	       (uint32_t)(grains >> (exponent - CM_BINS_FINE_SHIFT));
}

/* The first word of the map from `word` on that is not 0, or CM_BINS_WORDS. */
CM_ALWAYS_INLINE uint32_t cm_bins_next_word(const struct cm_bins *bins, uint32_t word)
{
	uint32_t top = word >> 6;
	uint64_t bits = bins->top[top] & ~UINT64_C(0) << (word & 63);

	while (CM_UNLIKELY(!bits)) {
		if (++top == CM_BINS_TOPS)
			return CM_BINS_WORDS;
		bits = bins->top[top];
	}
	return top * 64 + (uint32_t)__builtin_ctzll(bits);
}

/* The first bin from `bin` on that is not empty, or CM_BINS_COUNT or more. */
CM_ALWAYS_INLINE uint32_t cm_bins_next(const struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = bin >> 6;
	uint64_t bits;

	if (CM_UNLIKELY(bin >= CM_BINS_COUNT))
		return CM_BINS_COUNT;
	bits = bins->map[word] >> (bin & 63);
	if (bits)
		return bin + (uint32_t)__builtin_ctzll(bits);
	word = cm_bins_next_word(bins, word + 1);
	if (CM_UNLIKELY(word == CM_BINS_WORDS))
		return CM_BINS_COUNT;
	return word * 64 + (uint32_t)__builtin_ctzll(bins->map[word]);
}

/* The last bin before `bin`, 1 to CM_BINS_COUNT, that is not empty, or 0. Reads the words of the
 * map one by one. */
CM_ALWAYS_INLINE uint32_t cm_bins_before(const struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = (bin - 1) >> 6;
	uint64_t bits = bins->map[word] & ~UINT64_C(0) >> (63 - ((bin - 1) & 63));

	while (!bits && word)
		bits = bins->map[--word];
	return bits ? word * 64 + 63 - (uint32_t)__builtin_clzll(bits) : 0;
}

/* Puts a block into a bin, after smaller blocks and equal ones at lower addresses, as far as a few
 * steps reach. */
CM_ALWAYS_INLINE void cm_bins_insert_among(struct cm_bins *bins, uint32_t bin, uint32_t index)
{
	struct cm_block *block = &bins->block[index];
	const uint64_t size = block->size, addr = block->addr;
	uint32_t steps = CM_LIKELY(bin < CM_BINS_EXACT) ? CM_BINS_LOOK : CM_BINS_LOOK_WIDE;
	uint32_t before = 0, next = bins->head[bin], *slot = &bins->head[bin];

	for (; next && steps; steps--) {
		const struct cm_block *at = &bins->block[next];

		if (at->size > size || (at->size == size && at->addr > addr))
			break;
		before = next;
		slot = &bins->block[before].link_next;
		next = *slot;
	}
	*slot = index;
	block->link_prev = before;
	block->link_next = next;
	if (next)
		bins->block[next].link_prev = index;
}

/* A bin gets its first block. */
CM_ALWAYS_INLINE void cm_bins_mark(struct cm_bins *bins, uint32_t bin)
{
	const uint32_t word = bin >> 6;

	bins->map[word] |= UINT64_C(1) << (bin & 63);
	bins->top[word >> 6] |= UINT64_C(1) << (word & 63);
}

/* Puts a block in. */
CM_ALWAYS_INLINE void cm_bins_insert(struct cm_bins *bins, uint32_t index)
{
	struct cm_block *block = &bins->block[index];
	const uint32_t bin = cm_bins_of(block->size >> CM_GRAIN_SHIFT);

	if (bins->head[bin]) {
		cm_bins_insert_among(bins, bin, index);
		return;
	}
	cm_bins_mark(bins, bin);
	bins->head[bin] = index;
	block->link_next = 0;
}

/* Puts a block of the small pool in, before all others of its size. */
CM_ALWAYS_INLINE void cm_bins_push(struct cm_bins *bins, uint32_t index)
{
	struct cm_block *block = &bins->block[index];
	const uint32_t bin = cm_bins_of(block->size >> CM_GRAIN_SHIFT), next = bins->head[bin];

	bins->head[bin] = index;
	block->link_next = next;
	if (next)
		bins->block[next].link_prev = index;
	else
		cm_bins_mark(bins, bin);
}

/* The last block of a bin has gone. */
CM_ALWAYS_INLINE void cm_bins_unmark(struct cm_bins *bins, uint32_t bin)
{
	uint32_t word = bin >> 6;

	bins->map[word] &= ~(UINT64_C(1) << (bin & 63));
	if (!bins->map[word])
		bins->top[word >> 6] &= ~(UINT64_C(1) << (word & 63));
}

/* Takes a block out; its links stay as they were. */
CM_ALWAYS_INLINE void cm_bins_remove(struct cm_bins *bins, uint32_t index)
{
	const struct cm_block *block = &bins->block[index];
	const uint32_t bin = cm_bins_of(block->size >> CM_GRAIN_SHIFT), next = block->link_next;

	if (bins->head[bin] != index) {
		bins->block[block->link_prev].link_next = next;
		if (next)
			bins->block[next].link_prev = block->link_prev;
		return;
	}
	bins->head[bin] = next;
	if (!next)
		cm_bins_unmark(bins, bin);
}

/* A block of the largest bin that holds any, or 0. */
uint32_t cm_bins_largest(const struct cm_bins *bins);

struct cm_bins_found {
	struct cm_block *block;
	uint32_t index; /* of that row; 0: none */
	uint32_t bin;   /* whose first block it is; 0: it may be another one of its bin */
};

CM_ALWAYS_INLINE struct cm_bins_found cm_bins_at(const struct cm_bins *bins, uint32_t index,
						 uint32_t bin)
{
	return (struct cm_bins_found){&bins->block[index], index, bin};
}

/* Takes out a block that was found as the first one of `bin`. */
CM_ALWAYS_INLINE void cm_bins_pop(struct cm_bins *bins, struct cm_bins_found found)
{
	const uint32_t next = found.block->link_next;

	bins->head[found.bin] = next;
	if (!next)
		cm_bins_unmark(bins, found.bin);
}

/* cm_bins_find for sizes whose own bin holds smaller blocks, too. */
struct cm_bins_found cm_bins_find_wide(const struct cm_bins *bins, uint32_t bin, uint64_t size);

/* A block of at least `size` bytes, the smallest but for what is said above. It stays in. */
CM_ALWAYS_INLINE struct cm_bins_found cm_bins_find(const struct cm_bins *bins, uint64_t size)
{
	uint32_t bin = cm_bins_of((size + CM_GRAIN - 1) >> CM_GRAIN_SHIFT);

	if (CM_UNLIKELY(bin >= CM_BINS_EXACT))
		return cm_bins_find_wide(bins, bin, size);
	bin = cm_bins_next(bins, bin);
	return cm_bins_at(bins, CM_LIKELY(bin < CM_BINS_COUNT) ? bins->head[bin] : 0, bin);
}

#endif
