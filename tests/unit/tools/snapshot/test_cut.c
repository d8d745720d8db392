/* SPDX-License-Identifier: MIT */
/* From when to when the events of a snapshot are; their times are foreign data. */
#include "tools/snapshot/cut.h"

#include "tests/unit/cmocka_all.h"
#include "tools/snapshot/image.h"

static uint64_t last_of(uint64_t saved_ns, uint64_t last_tick)
{
	const struct cm_image image = {
		.header = {.tick_last = 1000, .time_last_ns = 1000}, /* a tick is a nanosecond */
		.saved = {.time_ns = saved_ns},
	};
	struct cm_event event[] = {{.tick = 10}, {.tick = 20}, {.tick = last_tick}};
	const struct cm_snapshot snapshot = {.image = &image, .event = event, .events = 3};
	uint64_t first, last;

	cm_snapshot_times(&snapshot, &first, &last);
	assert_int_equal(first, 10);
	return last;
}

/* Else --since -5m would leave out every event that has a true time. */
CM_TEST(a_time_later_than_the_snapshot_is_not_the_last)
{
	assert_int_equal(last_of(1000, 30), 30);
	assert_int_equal(last_of(1000, 5000000), 20);
}

CM_TEST(a_clock_that_was_put_back_leaves_the_latest)
{
	assert_int_equal(last_of(5, 30), 30);
}
