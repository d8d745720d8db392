/* SPDX-License-Identifier: MIT */
/* What happens to a request that options limit: max_split_size_mb, the caps of the process, and
 * garbage_collection_threshold. */
#include "allocator/entry/slow_path.h"

#include "tests/unit/fixture_case.h"

static struct fixture *open_oversize(void)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.max_split_size = 32 * MIB;
	return case_open_limit(&policy, 200 * MIB);
}

CM_TEST(an_oversize_block_that_is_enough_is_given_back_first)
{
	struct fixture *f = open_oversize();
	uint64_t a, b;

	a = case_get(f, 40 * MIB);
	b = case_get(f, 100 * MIB);
	case_put(f, a);
	case_put(f, b);
	case_settle(f);
	/* 60 MiB are left at the driver, and 100 are too many to be wasted on 62. */
	(void)case_get(f, 62 * MIB);
	assert_failures(f, 0, 0, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_int_equal(f->driver.used_bytes[0], 102 * MIB);
	case_close(f);
}

CM_TEST(oversize_blocks_go_from_the_largest_down)
{
	struct fixture *f = open_oversize();
	uint64_t a, b, c;

	a = case_get(f, 40 * MIB);
	b = case_get(f, 50 * MIB);
	c = case_get(f, 70 * MIB);
	case_put(f, a);
	case_put(f, b);
	case_put(f, c);
	case_settle(f);
	(void)case_get(f, 110 * MIB); /* 70, then 50 */
	assert_failures(f, 0, 0, 0);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 2);
	assert_int_equal(f->driver.used_bytes[0], 150 * MIB);
	case_close(f);
}

static struct fixture *open_fraction(double fraction, double threshold, uint64_t limit_bytes)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.memory_fraction = fraction;
	policy.garbage_collection_threshold = threshold;
	return case_open_limit(&policy, limit_bytes);
}

CM_TEST(the_lower_of_two_caps_holds)
{
	static const struct {
		double fraction;
		uint64_t limit, allowed;
	} caps[] = {
		{1, UINT64_MAX, 0},        {0.5, UINT64_MAX, 100 * MIB}, {1, 60 * MIB, 60 * MIB},
		{0.5, 60 * MIB, 60 * MIB}, {0.5, 120 * MIB, 100 * MIB},  {0, 120 * MIB, 1},
		{1, 900 * MIB, 900 * MIB},
	};
	struct cm_policy policy;
	struct fixture *f;
	size_t i;

	for (i = 0; i < sizeof(caps) / sizeof(caps[0]); i++) {
		cm_policy_init(&policy);
		policy.memory_fraction = caps[i].fraction;
		policy.memory_limit = caps[i].limit;
		f = case_open_limit(&policy, 200 * MIB);
		assert_int_equal(f->heap->device->row->allowed_bytes, caps[i].allowed);
		case_close(f);
	}
}

CM_TEST(the_cap_is_kept_without_asking_the_driver)
{
	struct fixture *f = open_fraction(0.5, 0, 200 * MIB);

	(void)case_get(f, 60 * MIB);
	assert_int_equal(case_try(f, 60 * MIB), CM_DRIVER_OUT_OF_MEMORY);
	assert_sound(f);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_oom_rejections), 1);
	assert_failures(f, 1, 1, 1);
	(void)case_get(f, 40 * MIB);
	assert_int_equal(f->driver.used_bytes[0], 100 * MIB);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_oom_rejections), 1);
	case_close(f);
}

CM_TEST(below_the_cap_cached_memory_makes_room)
{
	struct fixture *f = open_fraction(0.5, 0, 200 * MIB);

	case_put(f, case_get(f, 60 * MIB));
	case_settle(f);
	(void)case_get(f, 80 * MIB);
	assert_int_equal(f->driver.used_bytes[0], 80 * MIB);
	assert_failures(f, 1, 1, 0);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_num_oom_rejections), 0);
	case_close(f);
}

CM_TEST(a_fraction_of_nothing_allows_nothing)
{
	struct fixture *f = open_fraction(0, 0, 200 * MIB);

	assert_int_equal(case_try(f, 512), CM_DRIVER_OUT_OF_MEMORY);
	assert_int_equal(f->driver.called[FAKE_MEM_ALLOC], 0);
	case_close(f);
}

/* The cap is 400 MiB, the threshold 160. */
CM_TEST(garbage_collection_takes_what_was_idle_longest)
{
	struct fixture *f = open_fraction(0.5, 0.4, 800 * MIB);
	uint64_t old, young;
	int i;

	old = case_get(f, 90 * MIB);
	young = case_get(f, 100 * MIB);
	case_put(f, old);
	case_put(f, young);
	case_settle(f);
	for (i = 0; i < 20; i++) {
		assert_int_equal(case_get(f, 95 * MIB), young);
		case_put(f, young);
		case_settle(f);
	}
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	(void)case_get(f, 120 * MIB); /* a miss above the threshold */
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 1);
	assert_int_equal(fixture_scalar(f, CM_SCALAR_gc_bytes), 90 * MIB);
	assert_int_equal(fake_memory_of(young).bytes, 100 * MIB);
	assert_failures(f, 0, 0, 0);
	case_close(f);
}

CM_TEST(garbage_collection_needs_a_cap_and_an_excess)
{
	struct fixture *f = open_fraction(1, 0.5, 400 * MIB);

	case_put(f, case_get(f, 150 * MIB));
	case_settle(f);
	(void)case_get(f, 160 * MIB);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	case_close(f);
	f = open_fraction(0.5, 0.5, 800 * MIB);
	case_put(f, case_get(f, 150 * MIB));
	case_settle(f);
	(void)case_get(f, 160 * MIB);
	assert_int_equal(f->driver.called[FAKE_MEM_FREE], 0);
	case_close(f);
}
