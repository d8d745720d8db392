/* SPDX-License-Identifier: MIT */
/* The counters of a device: peaks, totals, and their resets. */
#include "allocator/state/report.h"

#include <errno.h>

#include "tests/unit/fixture_case.h"

#define ALL   CM_POOL_ALL
#define SMALL CM_POOL_SMALL
#define LARGE CM_POOL_LARGE

fixture_case(a_peak_is_the_highest_value_since_its_reset)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 4 * MIB), b = case_get(f, 4 * MIB);

	case_put(f, a);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES).peak, 8 * MIB);
	cm_cache_reset_peak(f->cache, 0);
	assert_sound(f);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES).peak, 4 * MIB);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ACTIVE_BYTES).peak, 8 * MIB);
	case_put(f, b);
	assert_int_equal(fixture_stat(f, LARGE, CM_STAT_ALLOCATED_BYTES).peak, 4 * MIB);
	(void)case_get(f, 512);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES).peak, 4 * MIB);
	assert_int_equal(fixture_stat(f, SMALL, CM_STAT_ALLOCATED_BYTES).peak, 512);
}

/* The peak of both pools is that of their sum, not the sum of their peaks. */
fixture_case(the_peak_of_all_is_that_of_the_sum)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 4 * MIB);

	case_put(f, a);
	(void)case_get(f, MIB);
	assert_int_equal(fixture_stat(f, LARGE, CM_STAT_ALLOCATED_BYTES).peak, 4 * MIB);
	assert_int_equal(fixture_stat(f, SMALL, CM_STAT_ALLOCATED_BYTES).peak, MIB);
	assert_int_equal(fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES).peak, 4 * MIB);
}

fixture_case(a_reset_of_totals_leaves_current_and_peak)
{
	struct fixture *f = *state;
	uint64_t a = case_get(f, 4 * MIB);
	struct cm_stat4 stat;

	cm_cache_reset_accumulated(f->cache, 0);
	assert_sound(f);
	stat = fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES);
	assert_int_equal(stat.current, 4 * MIB);
	assert_int_equal(stat.peak, 4 * MIB);
	assert_int_equal(stat.allocated, 0);
	assert_int_equal(stat.freed, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_device_alloc), 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_cache_misses), 0);
	case_put(f, a);
	(void)case_get(f, 100);
	stat = fixture_stat(f, ALL, CM_STAT_ALLOCATED_BYTES);
	assert_int_equal(stat.allocated, 512);
	assert_int_equal(stat.freed, 4 * MIB);
}

fixture_case(each_device_has_counters_of_its_own)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	struct cm_heap *heap;
	uint64_t addr;

	assert_true(fixture_add_context(f, 1, &heap) != 0);
	assert_int_equal(fixture_alloc(f, heap, 3 * MIB, &addr), 0);
	assert_current(f, ALL, CM_STAT_RESERVED_BYTES, 0);
	assert_int_equal(cm_cache_device_row(f->cache, 1), 1);
	assert_int_equal(cm_cache_read_device(f->cache, 1, &row), 0);
	assert_int_equal(row.stat[LARGE].current[CM_STAT_RESERVED_BYTES], 20 * MIB);
	assert_int_equal(cm_cache_device_row(f->cache, 2), UINT32_MAX);
	assert_int_equal(cm_cache_read_device(f->cache, 2, &row), -ENOENT);
	case_put(f, addr);
}
