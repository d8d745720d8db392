/* SPDX-License-Identifier: MIT */
/* Where ranges begin and end, by the events in them. */
#include "tools/snapshot/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"
#include "tools/snapshot/image.h"

/* At 1, 7, 19 and so on: "step", "step > forward", "step > backward", "other". */
static char texts[] = "\0step\0step\x1f"
		      "forward\0step\x1f"
		      "backward\0other";
enum { NOTHING, STEP = 1, FORWARD = 6, BACKWARD = 19, OTHER = 33 };

/* A tick is a nanosecond. */
static const struct cm_image image = {
	.header = {.tick_last = 1000, .time_last_ns = 1000},
	.table[CM_TABLE_TEXT] = {.rows = texts, .count = sizeof(texts)},
};

/* The edges of events with these annotations, one a tick, as "+step@1 -step@2"; of two threads. */
static void assert_edges(const uint32_t *annotation, const uint32_t *thread, size_t count,
			 const char *expected)
{
	struct cm_event event[16] = {0};
	struct cm_snap_device device[2] = {{.ordinal = 3, .events = count}};
	struct cm_snapshot snapshot = {
		.image = &image, .device = device, .devices = 2, .event = event, .events = count};
	char text[512] = "";
	struct cm_edge *edge;
	size_t edges, i;

	for (i = 0; i < count; i++)
		event[i] = (struct cm_event){.number = i + 1,
					     .tick = i + 1,
					     .thread = thread ? thread[i] : 7,
					     .annotation = annotation[i]};
	assert_int_equal(cm_ranges_find(&snapshot, &edge, &edges), 0);
	for (i = 0; i < edges; i++) {
		assert_int_equal(edge[i].ordinal, 3);
		(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%c%.*s@%llu",
			       i ? " " : "", edge[i].end ? '-' : '+', (int)edge[i].bytes,
			       edge[i].name,
			       (unsigned long long)(edge[i].time_ns - edge[0].time_ns));
	}
	free(edge);
	assert_string_equal(text, expected);
}

CM_TEST(ranges_inside_others_stay_inside)
{
	static const uint32_t annotation[] = {STEP, FORWARD, FORWARD, STEP, BACKWARD, OTHER};

	assert_edges(annotation, NULL, 6,
		     "+step@0 +forward@1 -forward@2 +backward@4 -backward@4 -step@4 +other@5 "
		     "-other@5");
	assert_edges(annotation, NULL, 0, "");
}

CM_TEST(a_range_inside_can_be_all_that_is_seen)
{
	static const uint32_t annotation[] = {NOTHING, FORWARD, BACKWARD, NOTHING};

	assert_edges(annotation, NULL, 4,
		     "+step@0 +forward@0 -forward@0 +backward@1 -backward@1 -step@1");
}

CM_TEST(threads_have_ranges_of_their_own)
{
	static const uint32_t annotation[] = {STEP, OTHER, FORWARD, OTHER};
	static const uint32_t thread[] = {7, 8, 7, 8};

	assert_edges(annotation, thread, 4,
		     "+step@0 +other@1 +forward@2 -forward@2 -step@2 -other@3");
}
