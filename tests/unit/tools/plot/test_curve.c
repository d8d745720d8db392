/* SPDX-License-Identifier: MIT */
/* Which events the columns of a timeline show; the times of events are foreign data. */
#include "tools/plot/curve.h"

#include "tests/unit/cmocka_all.h"
#include "tools/snapshot/image.h"

#define EVENTS 8
#define FUTURE UINT64_C(1000000000)

/* A tick is a nanosecond. Each event allocates a byte, at 1, 2 and so on, but for one. */
static void assert_all_shown(size_t damaged, uint64_t tick, uint64_t saved_ns)
{
	const struct cm_image image = {
		.header = {.tick_last = 1000, .time_last_ns = 1000},
		.saved = {.time_ns = saved_ns},
	};
	struct cm_event event[EVENTS] = {0};
	struct cm_snap_segment segment = {0};
	struct cm_snap_stack stack = {0};
	struct cm_snap_device device = {.events = EVENTS};
	const struct cm_snapshot snapshot = {.image = &image,
					     .device = &device,
					     .devices = 1,
					     .segment = &segment,
					     .event = event,
					     .events = EVENTS,
					     .stack = &stack,
					     .stacks = 1};
	struct cm_history *history;
	struct cm_curve *curve;
	size_t i;

	for (i = 0; i < EVENTS; i++)
		event[i] = (struct cm_event){.number = i + 1,
					     .tick = i == damaged ? tick : i + 1,
					     .action = CM_ACTION_ALLOC,
					     .addr = 16 * (i + 1),
					     .size = 1};
	assert_int_equal(cm_history_create(&snapshot, &device, &history), 0);
	assert_int_equal(cm_curve_create(history, EVENTS, 1, &curve), 0);
	for (i = 1; i < EVENTS - 1; i++)
		assert_in_range(curve->event[i], i - 1, i + 1);
	assert_int_equal(curve->event[EVENTS - 1], EVENTS - 1);
	assert_int_equal(curve->most, EVENTS);
	cm_curve_destroy(curve);
	cm_history_destroy(history);
}

CM_TEST(a_damaged_time_hides_no_other_event)
{
	size_t i;

	assert_all_shown(EVENTS, 0, 1000);
	for (i = 1; i < EVENTS; i++) {
		assert_all_shown(i, FUTURE, 1000);
		assert_all_shown(i, 0, 1000);
	}
}

CM_TEST(a_clock_that_was_put_back_hides_nothing)
{
	assert_all_shown(EVENTS, 0, 0);
	assert_all_shown(EVENTS / 2, FUTURE, 0);
}
