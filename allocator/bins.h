/* SPDX-License-Identifier: MIT */
/*
 * The free blocks of one pool, by size: exact best fit whose cost does not grow with their number.
 *
 * Sizes below 2 MiB have a bin of their own, one for each multiple of 512 bytes; equal sizes form
 * a list, last in first out. Above, each power of two is cut into 32 bins, and a bin holds its
 * distinct sizes in a binary trie over their lower bits (at most 2^-5 of the size's range, so a
 * handful of steps), equal sizes in a ring behind the trie's node. Two levels of bitmap find the
 * first bin that holds anything. Links live in the block rows (stats/layout.h). The trie is the one
 * that Doug Lea's malloc uses for its large chunks.
 *
 * Caller locks. Blocks are named by their index in the block table.
 */
#ifndef CM_ALLOCATOR_BINS_H
#define CM_ALLOCATOR_BINS_H

#include <stdint.h>

#include "stats/layout.h"

#define CM_BINS_EXACT 4096u /* bins of one size each, in grains */
#define CM_BINS_FINE  32u   /* bins to a power of two above */
#define CM_BINS_COUNT \
	(CM_BINS_EXACT + (51u - 12u) * CM_BINS_FINE) /* up to 2^51 grains, 2^60 bytes */
#define CM_BINS_WORDS ((CM_BINS_COUNT + 63u) / 64u)

struct cm_bins {
	struct cm_block *block;      /* the block table */
	uint64_t blocks;             /* how many are in the bins */
	uint64_t bytes;              /* and their sizes' sum */
	uint64_t top[2];             /* bit w: word w of `map` is not 0 */
	uint64_t map[CM_BINS_WORDS]; /* bit b: bin b is not empty */
	uint32_t head[CM_BINS_COUNT];
};

void cm_bins_init(struct cm_bins *bins, struct cm_block *table);
void cm_bins_insert(struct cm_bins *bins, uint32_t index);
void cm_bins_remove(struct cm_bins *bins, uint32_t index);
/* The smallest block of at least `size` bytes, or 0. It stays in the bins. */
uint32_t cm_bins_find(const struct cm_bins *bins, uint64_t size);
/* The largest block, or 0. */
uint32_t cm_bins_largest(const struct cm_bins *bins);

#endif
