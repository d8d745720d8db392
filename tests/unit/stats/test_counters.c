/* SPDX-License-Identifier: MIT */
#include "stats/counters.h"

#include <string.h>

#include "tests/unit/cmocka_all.h"

static struct cm_device_row row;

static int setup(void **state)
{
	(void)state;
	memset(&row, 0, sizeof(row));
	return 0;
}

static void assert_family(enum cm_pool pool, enum cm_stat stat, int64_t current, int64_t peak,
			  int64_t allocated, int64_t freed)
{
	struct cm_stat4 is = cm_stat_read(&row, pool, stat);

	if (is.current != current || is.peak != peak || is.allocated != allocated ||
	    is.freed != freed)
		fail_msg("pool %d, family %d: %lld %lld %lld %lld", pool, stat,
			 (long long)is.current, (long long)is.peak, (long long)is.allocated,
			 (long long)is.freed);
}

CM_TEST_WITH(both_pools_add_up, setup, NULL)
{
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 3);
	cm_counters_raise(&row, CM_POOL_LARGE, CM_STAT_SEGMENT, 5);
	cm_counters_lower(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 2);
	assert_family(CM_POOL_SMALL, CM_STAT_SEGMENT, 1, 3, 3, 2);
	assert_family(CM_POOL_LARGE, CM_STAT_SEGMENT, 5, 5, 5, 0);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 6, 8, 8, 2);
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 1);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 7, 8, 9, 2);
	assert_int_equal(cm_stat_current(&row, CM_STAT_SEGMENT), 7);
}

CM_TEST_WITH(an_allocation_moves_five_families, setup, NULL)
{
	cm_counters_alloc(&row, CM_POOL_LARGE, 1024, 1000);
	assert_family(CM_POOL_ALL, CM_STAT_ALLOCATION, 1, 1, 1, 0);
	assert_family(CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES, 1024, 1024, 1024, 0);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE, 1, 1, 1, 0);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 1024, 1024, 1024, 0);
	assert_family(CM_POOL_ALL, CM_STAT_REQUESTED_BYTES, 1000, 1000, 1000, 0);
	assert_family(CM_POOL_SMALL, CM_STAT_ALLOCATION, 0, 0, 0, 0);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 0, 0, 0, 0);
	cm_counters_free(&row, CM_POOL_LARGE, 1024);
	assert_family(CM_POOL_ALL, CM_STAT_ALLOCATION, 0, 1, 1, 1);
	assert_family(CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES, 0, 1024, 1024, 1024);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE, 1, 1, 1, 0);
	cm_counters_ready(&row, CM_POOL_LARGE, 1, 1024, 1000);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE, 0, 1, 1, 1);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 0, 1024, 1024, 1024);
	assert_family(CM_POOL_ALL, CM_STAT_REQUESTED_BYTES, 0, 1000, 1000, 1000);
}

/* The peaks that a request does not lift. */
CM_TEST_WITH(late_peaks_are_of_the_most_at_one_moment, setup, NULL)
{
	cm_counters_alloc(&row, CM_POOL_SMALL, 1024, 1000);
	cm_counters_alloc(&row, CM_POOL_LARGE, 4096, 4000);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 5120, 5120, 5120, 0);
	cm_counters_free(&row, CM_POOL_SMALL, 1024);
	cm_counters_ready(&row, CM_POOL_SMALL, 1, 1024, 1000);
	cm_counters_alloc(&row, CM_POOL_SMALL, 512, 500);
	assert_family(CM_POOL_SMALL, CM_STAT_ACTIVE_BYTES, 512, 1024, 1536, 1024);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE, 2, 2, 3, 1);
	assert_family(CM_POOL_ALL, CM_STAT_ACTIVE_BYTES, 4608, 5120, 5632, 1024);
	assert_family(CM_POOL_ALL, CM_STAT_REQUESTED_BYTES, 4500, 5000, 5500, 1000);
	cm_counters_reset_peak(&row);
	assert_family(CM_POOL_ALL, CM_STAT_REQUESTED_BYTES, 4500, 4500, 5500, 1000);
}

CM_TEST_WITH(a_change_is_one_raise_or_one_lowering_or_nothing, setup, NULL)
{
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 4);
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 0);
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, -3);
	assert_family(CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 1, 4, 4, 3);
}

CM_TEST_WITH(a_reset_of_peaks_takes_all_of_them_to_the_present, setup, NULL)
{
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 9);
	cm_counters_raise(&row, CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, 7);
	cm_counters_lower(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 5);
	cm_stat4_raise(&row.stat1[CM_STAT1_OVERSIZE_SEGMENTS], 2);
	cm_stat4_lower(&row.stat1[CM_STAT1_OVERSIZE_SEGMENTS], 2);
	cm_stat4_raise(&row.other_bytes[CM_UNCACHED_ASYNC], 50);
	cm_stat4_lower(&row.other_bytes[CM_UNCACHED_ASYNC], 20);
	cm_counters_count(&row, CM_SCALAR_num_ooms, 3);
	cm_counters_reset_peak(&row);
	assert_family(CM_POOL_SMALL, CM_STAT_SEGMENT, 4, 4, 9, 5);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 4, 4, 9, 5);
	assert_family(CM_POOL_ALL, CM_STAT_RESERVED_BYTES, 7, 7, 7, 0);
	assert_int_equal(row.stat1[CM_STAT1_OVERSIZE_SEGMENTS].peak, 0);
	assert_int_equal(row.stat1[CM_STAT1_OVERSIZE_SEGMENTS].allocated, 2);
	assert_int_equal(row.other_bytes[CM_UNCACHED_ASYNC].peak, 30);
	assert_int_equal(row.scalar[CM_SCALAR_num_ooms], 3);
}

CM_TEST_WITH(a_reset_of_totals_leaves_the_present_and_the_peaks, setup, NULL)
{
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 9);
	cm_counters_lower(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 5);
	cm_stat4_raise(&row.stat1[CM_STAT1_OVERSIZE_SEGMENTS], 2);
	cm_stat4_raise(&row.other_count[CM_UNCACHED_VMM], 2);
	cm_counters_count(&row, CM_SCALAR_num_ooms, 3);
	cm_counters_reset_accumulated(&row);
	assert_family(CM_POOL_SMALL, CM_STAT_SEGMENT, 4, 9, 0, 0);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 4, 9, 0, 0);
	assert_int_equal(row.stat1[CM_STAT1_OVERSIZE_SEGMENTS].current, 2);
	assert_int_equal(row.stat1[CM_STAT1_OVERSIZE_SEGMENTS].allocated, 0);
	assert_int_equal(row.other_count[CM_UNCACHED_VMM].allocated, 0);
	assert_int_equal(row.scalar[CM_SCALAR_num_ooms], 0);
	cm_counters_lower(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 1);
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 2);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 5, 9, 2, 1);
}

/* The only row of a device lifts its peaks, and never asks for a larger part. */
CM_TEST_WITH(a_whole_row_passes_no_part, setup, NULL)
{
	assert_false(cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 9));
	assert_false(cm_counters_change(&row, CM_POOL_LARGE, CM_STAT_SEGMENT, 2));
	assert_false(cm_counters_alloc(&row, CM_POOL_LARGE, 1024, 1000));
	assert_false(cm_counters_lift_peaks(&row, CM_POOL_LARGE));
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 11, 11, 11, 0);
}

static void be_part(int64_t small, int64_t large, int64_t all)
{
	row.flags |= CM_DEVICE_PART;
	row.stat[CM_POOL_SMALL].peak[CM_STAT_SEGMENT] = small;
	row.stat[CM_POOL_LARGE].peak[CM_STAT_SEGMENT] = large;
	row.stat[CM_POOL_ALL].peak[CM_STAT_SEGMENT] = all;
}

CM_TEST_WITH(a_part_is_passed_in_its_pool_or_in_all, setup, NULL)
{
	be_part(4, 9, 10);
	assert_false(cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 4));
	assert_true(cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 1));
	assert_false(cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, -1));
	assert_false(cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 0));
	assert_false(cm_counters_change(&row, CM_POOL_LARGE, CM_STAT_SEGMENT, 6));
	assert_true(cm_counters_change(&row, CM_POOL_LARGE, CM_STAT_SEGMENT, 1));
	/* What is passed is counted, and no part is lifted. */
	assert_family(CM_POOL_SMALL, CM_STAT_SEGMENT, 4, 4, 5, 1);
	assert_family(CM_POOL_LARGE, CM_STAT_SEGMENT, 7, 9, 7, 0);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 11, 10, 12, 1);
}

/* An allocation that passes the part of one of its five families alone. */
CM_TEST_WITH(an_allocation_passes_any_of_five_parts, setup, NULL)
{
	static const enum cm_stat stats[] = {CM_STAT_ALLOCATION, CM_STAT_ALLOCATED_BYTES,
					     CM_STAT_ACTIVE, CM_STAT_ACTIVE_BYTES,
					     CM_STAT_REQUESTED_BYTES};
	static const enum cm_pool pools[] = {CM_POOL_ALL, CM_POOL_SMALL};
	size_t i, k;

	for (k = 0; k < 2; k++)
		for (i = 0; i <= 5; i++) {
			memset(&row, 0, sizeof(row));
			row.flags |= CM_DEVICE_PART;
			memset(row.stat[CM_POOL_ALL].peak, 0x11, sizeof(row.stat[0].peak));
			memset(row.stat[CM_POOL_SMALL].peak, 0x11, sizeof(row.stat[0].peak));
			if (i < 5)
				row.stat[pools[k]].peak[stats[i]] = i == 1 || i == 3 ? 1023
								    : i == 4         ? 999
										     : 0;
			assert_int_equal(cm_counters_alloc(&row, CM_POOL_SMALL, 1024, 1000), i < 5);
			assert_int_equal(cm_counters_lift_peaks(&row, CM_POOL_SMALL), 1);
		}
}

CM_TEST_WITH(a_segment_that_moves_leaves_the_sums, setup, NULL)
{
	static struct cm_device_row to, sum, before;

	memset(&to, 0, sizeof(to));
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 3);
	cm_counters_raise(&row, CM_POOL_SMALL, CM_STAT_RESERVED_BYTES, 300);
	cm_counters_raise(&row, CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
	cm_counters_lower(&row, CM_POOL_SMALL, CM_STAT_SEGMENT, 1);
	before = row;
	cm_counters_move_segment(&row, &to, CM_POOL_SMALL, 100);
	assert_family(CM_POOL_SMALL, CM_STAT_SEGMENT, 1, 2, 3, 1);
	assert_family(CM_POOL_SMALL, CM_STAT_RESERVED_BYTES, 200, 200, 300, 0);
	assert_family(CM_POOL_ALL, CM_STAT_SEGMENT, 2, 3, 4, 1);
	assert_int_equal(to.stat[CM_POOL_SMALL].current[CM_STAT_SEGMENT], 1);
	assert_int_equal(to.stat[CM_POOL_SMALL].peak[CM_STAT_RESERVED_BYTES], 100);
	assert_int_equal(to.stat[CM_POOL_ALL].peak[CM_STAT_SEGMENT], 1);
	/* Nothing was allocated or freed in either. */
	assert_int_equal(cm_stat_read(&to, CM_POOL_ALL, CM_STAT_SEGMENT).allocated, 0);
	assert_int_equal(cm_stat_read(&to, CM_POOL_ALL, CM_STAT_SEGMENT).freed, 0);
	assert_int_equal(row.seq, before.seq + 2);
	assert_int_equal(to.seq, 2);
	sum = row;
	cm_device_row_add(&sum, &to);
	assert_memory_equal(sum.stat, before.stat, sizeof(sum.stat));
	/* And back. */
	cm_counters_move_segment(&to, &row, CM_POOL_SMALL, 100);
	assert_memory_equal(row.stat, before.stat, sizeof(row.stat));
}

CM_TEST_WITH(the_books_are_open_while_seq_is_odd, setup, NULL)
{
	cm_counters_begin(&row);
	assert_int_equal(row.seq, 1);
	cm_counters_end(&row);
	assert_int_equal(row.seq, 2);
	cm_counters_reset_peak(&row);
	cm_counters_reset_accumulated(&row);
	assert_int_equal(row.seq, 6);
}

/* Every counter once, so that none can be left out. */
CM_TEST(the_rows_of_a_device_add_up)
{
	static struct cm_device_row sum, add;
	int64_t *value = (void *)&add.stat;
	const int64_t *is = (const void *)&sum.stat;
	const size_t values = (offsetof(struct cm_device_row, first_shard) -
			       offsetof(struct cm_device_row, stat)) /
			      sizeof(*value);
	size_t i;

	memset(&add, 0xff, sizeof(add));
	for (i = 0; i < values; i++)
		value[i] = (int64_t)i + 1;
	sum.event_next = 7;
	sum.heaps = 1;
	sum.first_shard = 0;
	sum.stat[CM_POOL_ALL].peak[0] = 100;
	cm_device_row_add(&sum, &add);
	assert_int_equal(is[0], 1);
	assert_int_equal(sum.stat[CM_POOL_ALL].peak[0], 100 + 16 + 1);
	cm_device_row_add(&sum, &add);
	for (i = 0; i < values; i++)
		assert_int_equal(is[i], 2 * ((int64_t)i + 1) + (i == 16 ? 100 : 0));
	assert_int_equal(sum.event_next, 7);
	assert_int_equal(sum.heaps, 1);
	assert_int_equal(sum.free_bytes, 0);
	assert_int_equal(sum.first_shard, 0);
	assert_int_equal(sum.stops, 0);
	assert_int_equal(sum.stat1[0].current, 2 * add.stat1[0].current);
	assert_int_equal(sum.other_count[CM_UNCACHED_ROOM - 1].freed,
			 2 * add.other_count[CM_UNCACHED_ROOM - 1].freed);
}

CM_TEST(sums_of_rows_wrap)
{
	static struct cm_device_row sum, add;

	sum.scalar[0] = INT64_MAX;
	add.scalar[0] = 1;
	cm_device_row_add(&sum, &add);
	assert_true(sum.scalar[0] == INT64_MIN);
}
