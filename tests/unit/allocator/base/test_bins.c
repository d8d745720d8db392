/* SPDX-License-Identifier: MIT */
#include "allocator/base/bins.h"

#include <stdlib.h>
#include <string.h>

#include "allocator/base/size_class.h"
#include "tests/unit/cmocka_all.h"

#define ROWS       2000
#define OPERATIONS 200000
#define GRAINS_MAX (UINT64_C(1) << 27) /* 64 GiB */

struct bench {
	struct cm_bins bins;
	struct cm_block block[ROWS + 1];
	uint8_t in[ROWS + 1];
	uint32_t count;
};

static int setup(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));

	if (!bench)
		return -1;
	cm_bins_init(&bench->bins, bench->block);
	*state = bench;
	return 0;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

static void insert(struct bench *bench, uint32_t index, uint64_t size)
{
	bench->block[index].size = size;
	bench->in[index] = 1;
	bench->count++;
	cm_bins_insert(&bench->bins, index);
}

static void take(struct bench *bench, uint32_t index)
{
	bench->in[index] = 0;
	bench->count--;
	cm_bins_remove(&bench->bins, index);
}

/* How many blocks share the bin of a wide size, so that its list may be out of order. */
static uint32_t crowd(const struct bench *bench, uint64_t size)
{
	uint32_t bin = cm_bins_of(size / CM_GRAIN), index, n = 0;

	for (index = bin < CM_BINS_COUNT ? bench->bins.head[bin] : 0; index;
	     index = bench->block[index].link_next)
		n++;
	return bin < CM_BINS_EXACT ? 0 : n;
}

/* The size of the best fit, by looking at all; 0: none. */
static uint64_t best_fit(const struct bench *bench, uint64_t size)
{
	uint64_t best = 0;
	uint32_t i;

	for (i = 1; i <= ROWS; i++)
		if (bench->in[i] && bench->block[i].size >= size &&
		    (!best || bench->block[i].size < best))
			best = bench->block[i].size;
	return best;
}

static void check_find(const struct bench *bench, uint64_t size)
{
	const struct cm_bins_found at = cm_bins_find(&bench->bins, size);
	const uint32_t found = at.index;
	uint64_t best = best_fit(bench, size);

	assert_ptr_equal(at.block, &bench->block[found]);
	if (found && at.bin)
		assert_int_equal(bench->bins.head[at.bin], found);
	if (found && !bench->in[found])
		fail_msg("block %u is found and is not in the bins", found);
	if (!found != !best)
		fail_msg("for %llu: found %u, best %llu", (unsigned long long)size, found,
			 (unsigned long long)best);
	if (!found || bench->block[found].size == best)
		return;
	/* In a crowded bin it may be another one's, within a hundredth. */
	if ((crowd(bench, size) <= CM_BINS_LOOK_WIDE && crowd(bench, best) <= CM_BINS_LOOK_WIDE) ||
	    bench->block[found].size < size || bench->block[found].size > best + best / 100)
		fail_msg("for %llu: found %llu, best %llu", (unsigned long long)size,
			 (unsigned long long)(found ? bench->block[found].size : 0),
			 (unsigned long long)best);
}

static uint64_t random_bits(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Sizes of every order, many of them equal or next to each other. */
static uint64_t random_size(uint64_t *state)
{
	uint64_t r = random_bits(state), grains;

	switch (r % 5) {
	case 0:
		grains = 1 + (r >> 8) % 16;
		break;
	case 1:
		grains = 1 + (r >> 8) % (2 * CM_BINS_EXACT);
		break;
	case 2:
		grains = 2 * CM_BINS_EXACT + (r >> 8) % 40;
		break;
	case 3:
		grains = (UINT64_C(1) << (r >> 8) % 28) + (r >> 16) % 3;
		break;
	default:
		grains = 1 + (r >> 8) % GRAINS_MAX;
	}
	return grains * CM_GRAIN;
}

#define BENCH(test) CM_TEST_WITH(test, setup, teardown)

BENCH(the_fit_is_the_best_among_all_sizes)
{
	struct bench *bench = *state;
	uint64_t random = UINT64_C(0x1234567), size;
	uint32_t index, i;

	for (i = 0; i < OPERATIONS; i++) {
		index = 1 + (uint32_t)(random_bits(&random) % ROWS);
		size = random_size(&random);
		if (bench->in[index])
			take(bench, index);
		else
			insert(bench, index, size);
		if (i % 8 == 0) {
			check_find(bench, size);
			check_find(bench, bench->block[index].size);
		}
	}
}

BENCH(the_bin_before_is_found_from_any_bin)
{
	static const uint64_t grains[] = {
		1, 63, 64, 65, CM_BINS_EXACT - 1, 2 * CM_BINS_EXACT, GRAINS_MAX - 1,
	};
	struct bench *bench = *state;
	uint32_t i, before = 0, bin;

	for (i = 0; i < sizeof(grains) / sizeof(grains[0]); i++) {
		insert(bench, i + 1, grains[i] * CM_GRAIN);
		bin = cm_bins_of(grains[i]);
		assert_int_equal(cm_bins_before(&bench->bins, CM_BINS_COUNT), bin);
		assert_int_equal(cm_bins_before(&bench->bins, bin + 1), bin);
		assert_int_equal(cm_bins_before(&bench->bins, bin), before);
		before = bin;
	}
}

/* What an allocator does: the best fit is taken, and its remainder put back. */
BENCH(cutting_the_best_fit_keeps_the_fit_exact)
{
	struct bench *bench = *state;
	uint64_t random = UINT64_C(0x7654321), size, rest;
	uint32_t index, i;

	for (i = 0; i < OPERATIONS / 4; i++) {
		size = random_size(&random);
		index = cm_bins_find(&bench->bins, size).index;
		if (!index) {
			for (index = 1; index <= ROWS && bench->in[index]; index++)
				;
			if (index <= ROWS)
				insert(bench, index, 4 * size);
			continue;
		}
		if (i % 16 == 0)
			check_find(bench, size);
		rest = bench->block[index].size - size;
		take(bench, index);
		if (rest)
			insert(bench, index, rest);
	}
}

BENCH(equal_sizes_are_all_allocated)
{
	static const uint64_t sizes[] = {CM_GRAIN, (CM_BINS_EXACT - 1) * CM_GRAIN,
					 CM_BINS_EXACT * CM_GRAIN, UINT64_C(1) << 33};
	struct bench *bench = *state;
	uint32_t i, index;
	size_t s;

	for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		for (i = 1; i <= 100; i++)
			insert(bench, i, sizes[s]);
		/* From the middle of the list, and its head. */
		for (i = 1; i <= 100; i += 9)
			take(bench, i);
		while ((index = cm_bins_find(&bench->bins, sizes[s]).index) != 0) {
			assert_true(bench->in[index]);
			assert_int_equal(bench->block[index].size, sizes[s]);
			take(bench, index);
		}
		assert_int_equal(bench->count, 0);
		assert_int_equal(cm_bins_next(&bench->bins, 0), CM_BINS_COUNT);
	}
}

/* The wide bin of 1 GiB to 1 GiB + 8 MiB, in a stirred order. */
static uint64_t wide_size(uint32_t i, uint32_t n)
{
	return (UINT64_C(1) << 30) + (i * 7919 % n) * 16 * CM_GRAIN;
}

BENCH(of_equal_blocks_the_lowest_comes_first)
{
	static const uint64_t addr[] = {3, 1, 2};
	struct bench *bench = *state;
	uint32_t i, index;

	for (i = 0; i < 3; i++) {
		bench->block[i + 1].addr = addr[i] << 20;
		insert(bench, i + 1, CM_GRAIN);
	}
	for (i = 1; i <= 3; i++) {
		index = cm_bins_find(&bench->bins, CM_GRAIN).index;
		assert_int_equal(bench->block[index].addr, i << 20);
		take(bench, index);
	}
}

/* Its row was not written when the one before it went. */
BENCH(who_has_become_the_first_leaves_the_others_in)
{
	struct bench *bench = *state;
	uint32_t i;

	for (i = 1; i <= 3; i++) {
		bench->block[i].addr = (uint64_t)i << 20;
		insert(bench, i, CM_GRAIN);
	}
	cm_bins_pop(&bench->bins, cm_bins_find(&bench->bins, CM_GRAIN));
	bench->block[1].link_next = 77;
	take(bench, 2);
	assert_int_equal(bench->block[1].link_next, 77);
	assert_int_equal(cm_bins_find(&bench->bins, CM_GRAIN).index, 3);
	take(bench, 3);
	assert_int_equal(cm_bins_find(&bench->bins, CM_GRAIN).index, 0);
}

BENCH(a_few_sizes_of_a_wide_bin_come_off_in_order)
{
	struct bench *bench = *state;
	uint64_t last = 0;
	uint32_t i, index;

	for (i = 0; i < CM_BINS_LOOK_WIDE; i++)
		insert(bench, i + 1, wide_size(i, CM_BINS_LOOK_WIDE));
	while ((index = cm_bins_find(&bench->bins, UINT64_C(1) << 30).index) != 0) {
		assert_true(bench->block[index].size > last);
		last = bench->block[index].size;
		take(bench, index);
	}
	assert_int_equal(bench->count, 0);
}

/* The one that fits lies deep in the list, and there is no other. */
BENCH(a_crowded_wide_bin_hides_nobody)
{
	struct bench *bench = *state;
	uint64_t size;
	uint32_t i, index;

	for (i = 0; i < 1000; i++)
		insert(bench, i + 1, wide_size(i, 1000));
	assert_int_equal(cm_bins_of(wide_size(0, 1000) / CM_GRAIN),
			 cm_bins_of(wide_size(999, 1000) / CM_GRAIN));
	for (i = 1000; i > 0; i--) {
		size = (UINT64_C(1) << 30) + (i - 1) * 16 * CM_GRAIN;
		index = cm_bins_find(&bench->bins, size).index;
		assert_int_not_equal(index, 0);
		assert_true(bench->block[index].size >= size);
		take(bench, index);
	}
	assert_int_equal(bench->count, 0);
}

BENCH(a_size_beyond_all_bins_fits_nowhere)
{
	struct bench *bench = *state;

	insert(bench, 1, (CM_REQUEST_MAX >> 1));
	assert_int_equal(cm_bins_find(&bench->bins, CM_REQUEST_MAX >> 1).index, 1);
	assert_int_equal(cm_bins_find(&bench->bins, (CM_REQUEST_MAX >> 1) + 1).index, 0);
	assert_int_equal(cm_bins_find(&bench->bins, CM_REQUEST_MAX).index, 0);
	assert_int_equal(cm_bins_find(&bench->bins, CM_REQUEST_MAX * 2).index, 0);
}
