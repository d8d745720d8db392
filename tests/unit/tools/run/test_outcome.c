/* SPDX-License-Identifier: MIT */
/* Which option would have helped a program, by its counters. */
#include "tools/run/outcome.h"

#include <string.h>

#include "tests/unit/cmocka_all.h"

#define GIB ((int64_t)1 << 30)

/* A program that the cache served well. */
static struct cm_run_outcome good(void)
{
	return (struct cm_run_outcome){.peak_allocated = 10 * GIB,
				       .peak_reserved = 11 * GIB,
				       .allocs = 1000,
				       .frees = 1000,
				       .hits = 990,
				       .misses = 10,
				       .driver_allocs = 10,
				       .devices = 1,
				       .caches = true,
				       .splits = true};
}

CM_TEST(the_gravest_reason_is_given)
{
	struct cm_run_outcome summary = good();
	char text[256];

	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_string_equal(text, "none");
	summary.ooms = 1;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "none: more was requested"));
	assert_non_null(strstr(text, "a run with --oom FILE"));
	summary.saves_oom = true;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_null(strstr(text, "run with --oom"));
	summary.saves_oom = false;
	summary.splits = false;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "none: more was requested")); /* the hit rate is good */
	summary.hits = 100;
	summary.misses = 900;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "placement:auto"));
	summary.decayed = 20 * GIB;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "decay_seconds:off, or a longer time: 20.00 GiB"));
	summary.peak_fragmented = 2 * GIB;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "expandable_segments:on: up to 2.00 GiB"));
	assert_non_null(strstr(text, "and memory ran out"));
	summary.rejections = 3;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "memory_limit_mb"));
	summary.caches = false;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_non_null(strstr(text, "mode:cache"));
}

CM_TEST(little_is_not_worth_an_option)
{
	struct cm_run_outcome summary = good();
	char text[256];

	summary.peak_fragmented = GIB; /* of 11 */
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_string_equal(text, "none");
	summary.peak_reserved = 100 << 20;
	summary.peak_fragmented = 60 << 20;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_string_equal(text, "none");
	summary = good();
	summary.peak_fragmented = 5 * GIB;
	summary.pages = true; /* it is on */
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_string_equal(text, "none");
	summary = good();
	summary.hits = 5;
	summary.misses = 50; /* too few to tell */
	summary.decayed = 20 * GIB;
	cm_run_outcome_advise(&summary, text, sizeof(text));
	assert_string_equal(text, "none");
}

CM_TEST(devices_are_added_up)
{
	static struct cm_device_row row;
	struct cm_run_outcome summary = {0};

	row.stat[CM_POOL_ALL].peak[CM_STAT_ALLOCATED_BYTES] = GIB;
	row.stat[CM_POOL_ALL].peak[CM_STAT_INACTIVE_SPLIT_BYTES] = 7;
	row.stat[CM_POOL_LARGE].freed[CM_STAT_ALLOCATION] = 5;
	row.scalar[CM_SCALAR_num_ooms] = INT64_MAX; /* foreign data */
	cm_run_outcome_add(&summary, &row);
	cm_run_outcome_add(&summary, &row);
	assert_int_equal(summary.peak_allocated, 2 * GIB);
	assert_int_equal(summary.peak_fragmented, 7);
	assert_int_equal(summary.allocs, 10);
	assert_int_equal(summary.frees, 10);
	assert_int_equal(summary.devices, 2);
}
