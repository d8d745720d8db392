/* SPDX-License-Identifier: MIT */
#include "stats/summary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/region.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	struct cm_region *region;
	struct cm_reader *reader;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	if (own_region_make(f->dir, (struct cm_region_params){0}, &f->region))
		return -1;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_reader_close(f->reader);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

static void open_region(struct fixture *f)
{
	char why[CM_READER_WHY_BYTES];

	assert_int_equal(cm_reader_open(f->region->path, &f->reader, why), 0);
}

/* `first_shard` as in the row. */
static void add_device(struct fixture *f, uint32_t index, uint32_t first_shard)
{
	struct cm_device_row *row;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, index + 1), 0);
	row = cm_region_row(f->region, CM_TABLE_DEVICE, index);
	row->flags = CM_DEVICE_USED;
	row->first_shard = first_shard;
}

static struct cm_segment *add_segment(struct fixture *f, uint32_t index, uint32_t device,
				      uint32_t flags)
{
	struct cm_segment *segment;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, index + 1), 0);
	segment = cm_region_row(f->region, CM_TABLE_SEGMENT, index);
	*segment = (struct cm_segment){.addr = UINT64_C(0x1000000) * index,
				       .device = device,
				       .flags = CM_SEGMENT_USED | flags};
	return segment;
}

/* Adds a block at the end of a segment; rows are used in order. */
static struct cm_block *add_block(struct fixture *f, uint32_t index, uint32_t segment_index,
				  uint64_t size, enum cm_block_state block_state)
{
	struct cm_segment *segment = cm_region_row(f->region, CM_TABLE_SEGMENT, segment_index);
	struct cm_block *block;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, index + 1), 0);
	block = cm_region_row(f->region, CM_TABLE_BLOCK, index);
	*block = (struct cm_block){.addr = segment->addr + segment->size,
				   .size = size,
				   .segment = segment_index,
				   .state = block_state};
	if (!segment->first)
		segment->first = index;
	else
		((struct cm_block *)cm_region_row(f->region, CM_TABLE_BLOCK, index - 1))->next =
			index;
	segment->size += size;
	segment->blocks++;
	return block;
}

CM_TEST(the_parts_of_the_reserved_bytes_add_up)
{
	static struct cm_device_row row;
	struct cm_summary sum;

	cm_counters_raise(&row, CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, 100 << 20);
	cm_counters_raise(&row, CM_POOL_LARGE, CM_STAT_INACTIVE_SPLIT_BYTES, 10 << 20);
	cm_counters_alloc(&row, CM_POOL_LARGE, 40 << 20, (40 << 20) - 100);
	cm_counters_alloc(&row, CM_POOL_LARGE, 20 << 20, (20 << 20) - 11);
	cm_counters_free(&row, CM_POOL_LARGE, 20 << 20);
	sum = cm_summary_pool(&row, CM_POOL_ALL);
	assert_int_equal(sum.allocated, 40 << 20);
	assert_int_equal(sum.pending, 20 << 20);
	assert_int_equal(sum.cached, 60 << 20);
	assert_int_equal(sum.fragmented, 10 << 20);
	assert_int_equal(sum.releasable, 30 << 20);
	assert_int_equal(sum.rounding, 111);
	assert_int_equal(sum.peak_allocated, 60 << 20);
	assert_int_equal(sum.blocks, 1);
	assert_int_equal(sum.allocs - sum.frees, sum.blocks);
	assert_int_equal(sum.allocated + sum.pending + sum.fragmented + sum.releasable,
			 sum.reserved);
	assert_int_equal(cm_summary_pool(&row, CM_POOL_SMALL).reserved, 0);
}

CM_TEST(managed_memory_is_not_counted_as_the_devices)
{
	static struct cm_device_row row;
	int64_t outside = 77;

	row.other_bytes[CM_UNCACHED_MANAGED].current = 1000;
	row.other_bytes[CM_UNCACHED_ARRAY].current = 200;
	row.other_bytes[CM_UNCACHED_VMM].current = 30;
	assert_int_equal(cm_summary_other(&row), 230);
	row.total_bytes = 10000;
	row.free_bytes = 9000;
	assert_false(cm_summary_outside(&row, &outside));
	assert_int_equal(outside, 77);
	row.free_seen_ns = 1;
	assert_true(cm_summary_outside(&row, &outside));
	assert_int_equal(outside, 770);
	/* More was allocated since the free memory was read. */
	row.other_bytes[CM_UNCACHED_ARRAY].current = 2000;
	assert_true(cm_summary_outside(&row, &outside));
	assert_int_equal(outside, 0);
}

CM_TEST(rates_of_nothing_are_told_apart_from_zero)
{
	const struct cm_survey_pool none = {0};
	const struct cm_survey_pool half = {.free_bytes = 100, .largest_free = 50};

	assert_true(cm_hit_rate(0, 0) < 0);
	assert_true(cm_hit_rate(-1, 5) < 0);
	assert_true(cm_hit_rate(0, 5) == 0);
	assert_true(cm_hit_rate(3, 1) == 0.75);
	assert_true(cm_hit_rate(INT64_MAX, INT64_MAX) == 0.5);
	assert_true(cm_fragmentation(&none) < 0);
	assert_true(cm_fragmentation(&half) == 0.5);
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(the_survey_sorts_blocks_by_device_and_pool)
{
	struct fixture *f = *state;
	struct cm_survey *survey;

	add_device(f, 0, 0);
	add_device(f, 1, 0);
	(void)add_segment(f, 1, 0, CM_SEGMENT_SMALL);
	(void)add_block(f, 1, 1, 512, CM_BLOCK_FREE);
	(void)add_block(f, 2, 1, 1024, CM_BLOCK_LIVE);
	(void)add_segment(f, 2, 0, 0);
	(void)add_block(f, 3, 2, 4096, CM_BLOCK_FREE);
	(void)add_block(f, 4, 2, 8192, CM_BLOCK_PENDING);
	(void)add_block(f, 5, 2, 2048, CM_BLOCK_FREE);
	(void)add_segment(f, 3, 1, 0);
	(void)add_block(f, 6, 3, 1 << 20, CM_BLOCK_FREE);
	/* Not the device's: pinned memory; and what no reader can make sense of. */
	(void)add_segment(f, 4, 0, CM_SEGMENT_HOST);
	(void)add_block(f, 7, 4, 1 << 30, CM_BLOCK_FREE);
	(void)add_segment(f, 5, UINT32_MAX, 0);
	(void)add_block(f, 8, 5, 1 << 30, CM_BLOCK_FREE);
	add_block(f, 9, 5, 1 << 30, CM_BLOCK_FREE)->segment = UINT32_MAX;
	open_region(f);
	assert_int_equal(cm_survey_create(f->reader, &survey), 0);
	assert_int_equal(survey->pool[0][CM_POOL_SMALL].largest_free, 512);
	assert_int_equal(survey->pool[0][CM_POOL_LARGE].largest_free, 4096);
	assert_int_equal(survey->pool[0][CM_POOL_ALL].largest_free, 4096);
	assert_int_equal(survey->pool[0][CM_POOL_ALL].free_bytes, 512 + 4096 + 2048);
	assert_int_equal(survey->pool[0][CM_POOL_ALL].free_blocks, 3);
	assert_int_equal(survey->pool[0][CM_POOL_ALL].pending_blocks, 1);
	assert_int_equal(survey->pool[1][CM_POOL_ALL].largest_free, 1 << 20);
	cm_survey_destroy(survey);
}

TEST(the_survey_counts_shards_as_their_device)
{
	struct fixture *f = *state;
	struct cm_survey *survey;

	add_device(f, 0, 0);
	add_device(f, 1, 0);
	add_device(f, 2, 2);
	add_device(f, 3, 2);
	add_device(f, 4, 5); /* itself: damaged */
	(void)add_segment(f, 1, 0, 0);
	(void)add_block(f, 1, 1, 512, CM_BLOCK_FREE);
	(void)add_segment(f, 2, 2, CM_SEGMENT_NAMED);
	(void)add_block(f, 2, 2, 1024, CM_BLOCK_FREE);
	(void)add_segment(f, 3, 1, 0);
	(void)add_block(f, 3, 3, 4096, CM_BLOCK_FREE);
	(void)add_segment(f, 4, 3, CM_SEGMENT_SMALL | CM_SEGMENT_NAMED);
	(void)add_block(f, 4, 4, 2048, CM_BLOCK_FREE);
	(void)add_block(f, 5, 4, 512, CM_BLOCK_PENDING);
	(void)add_segment(f, 5, 4, CM_SEGMENT_NAMED);
	(void)add_block(f, 6, 5, 1 << 20, CM_BLOCK_FREE);
	open_region(f);
	assert_int_equal(cm_survey_create(f->reader, &survey), 0);
	assert_int_equal(survey->pool[0][CM_POOL_ALL].free_bytes, 512);
	assert_int_equal(survey->pool[1][CM_POOL_ALL].free_bytes, 4096 + 1024 + 2048);
	assert_int_equal(survey->pool[1][CM_POOL_SMALL].free_bytes, 2048);
	assert_int_equal(survey->pool[1][CM_POOL_ALL].largest_free, 4096);
	assert_int_equal(survey->pool[1][CM_POOL_ALL].pending_blocks, 1);
	assert_int_equal(survey->named_bytes[0], 0);
	assert_int_equal(survey->named_bytes[1], 1024 + 2560);
	assert_int_equal(survey->pool[2][CM_POOL_ALL].free_blocks, 0);
	assert_int_equal(survey->pool[4][CM_POOL_ALL].free_blocks, 0);
	cm_survey_destroy(survey);
}

static void sum_size(void *data, const struct cm_block *block)
{
	*(uint64_t *)data += block->size;
}

TEST(blocks_are_walked_as_long_as_they_tile_the_segment)
{
	struct fixture *f = *state;
	struct cm_segment *segment = add_segment(f, 1, 0, 0);
	struct cm_block *second;
	uint64_t bytes = 0;

	(void)add_block(f, 1, 1, 4096, CM_BLOCK_LIVE);
	second = add_block(f, 2, 1, 8192, CM_BLOCK_FREE);
	(void)add_block(f, 3, 1, 512, CM_BLOCK_LIVE);
	open_region(f);
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), 0);
	assert_int_equal(bytes, segment->size);

	second->next = 1; /* back to the start */
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
	second->next = 3;
	second->addr += 512;
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
	second->addr -= 512;
	second->size = 0;
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
	second->size = UINT64_MAX;
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
	second->size = 8192;
	segment->blocks = 2;
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
	segment->first = UINT32_MAX;
	assert_int_equal(cm_segment_walk(f->reader, segment, sum_size, &bytes), -EUCLEAN);
}
