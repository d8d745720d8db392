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

static void both_pools_add_up(void **state)
{
	(void)state;
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

static void an_allocation_moves_five_families(void **state)
{
	(void)state;
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

static void a_change_is_one_raise_or_one_lowering_or_nothing(void **state)
{
	(void)state;
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 4);
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 0);
	cm_counters_change(&row, CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, -3);
	assert_family(CM_POOL_SMALL, CM_STAT_INACTIVE_SPLIT, 1, 4, 4, 3);
}

static void a_reset_of_peaks_takes_all_of_them_to_the_present(void **state)
{
	(void)state;
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

static void a_reset_of_totals_leaves_the_present_and_the_peaks(void **state)
{
	(void)state;
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

static void the_books_are_open_while_seq_is_odd(void **state)
{
	(void)state;
	cm_counters_begin(&row);
	assert_int_equal(row.seq, 1);
	cm_counters_end(&row);
	assert_int_equal(row.seq, 2);
	cm_counters_reset_peak(&row);
	cm_counters_reset_accumulated(&row);
	assert_int_equal(row.seq, 6);
}

/* Every counter once, so that none can be left out. */
static void the_rows_of_a_device_add_up(void **state)
{
	static struct cm_device_row sum, add;
	int64_t *value = (void *)&add.stat;
	const int64_t *is = (const void *)&sum.stat;
	const size_t values = (offsetof(struct cm_device_row, first_shard) -
			       offsetof(struct cm_device_row, stat)) /
			      sizeof(*value);
	size_t i;

	(void)state;
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

static void sums_of_rows_wrap(void **state)
{
	static struct cm_device_row sum, add;

	(void)state;
	sum.scalar[0] = INT64_MAX;
	add.scalar[0] = 1;
	cm_device_row_add(&sum, &add);
	assert_true(sum.scalar[0] == INT64_MIN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(both_pools_add_up, setup),
		cmocka_unit_test_setup(an_allocation_moves_five_families, setup),
		cmocka_unit_test_setup(a_change_is_one_raise_or_one_lowering_or_nothing, setup),
		cmocka_unit_test_setup(a_reset_of_peaks_takes_all_of_them_to_the_present, setup),
		cmocka_unit_test_setup(a_reset_of_totals_leaves_the_present_and_the_peaks, setup),
		cmocka_unit_test_setup(the_books_are_open_while_seq_is_odd, setup),
		cmocka_unit_test(the_rows_of_a_device_add_up),
		cmocka_unit_test(sums_of_rows_wrap),
	};

	return cmocka_run_group_tests_name("counters", tests, NULL, NULL);
}
