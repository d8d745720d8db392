/* SPDX-License-Identifier: MIT */
/* Reserved memory from when to when, told from what is there at the end and from the events. */
#include "tools/snapshot/stretches.h"

#include <stdlib.h>

#include "stats/layout.h"
#include "tests/unit/cmocka_all.h"

#define PAGE   UINT64_C(0x200000)
#define BASE   UINT64_C(0x7f0000000000)
#define EVENTS 16
#define MAP    CM_ACTION_SEGMENT_MAP
#define UNMAP  CM_ACTION_SEGMENT_UNMAP
#define MANY   (1u << 20)

/* In pages from BASE on. */
struct step {
	enum cm_action action;
	uint64_t addr, size;
};

struct found {
	uint64_t addr, size;
	uint32_t begin, end;
};

/* Adds what the events find to what is there at the end, a segment of so many pages or none. */
static void find(const struct cm_event *event, size_t events, uint64_t at_end,
		 struct cm_stretch **ret_item, size_t *ret_count)
{
	const struct cm_segment row = {.addr = BASE, .size = at_end * PAGE};
	struct cm_snap_segment segment = {.row = &row};
	const struct cm_snapshot snapshot = {.segment = &segment, .segments = 1};
	const struct cm_snap_device device = {.segments = at_end ? 1 : 0, .events = events};
	const struct cm_history history = {
		.snapshot = &snapshot, .device = &device, .event = event, .events = events};

	assert_int_equal(cm_stretches_find(&history, ret_item, ret_count), 0);
}

static int by_place(const void *a, const void *b)
{
	const struct cm_stretch *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	return x->end < y->end ? -1 : x->end > y->end;
}

/* By address, then by end. */
static void expect(const struct step *step, size_t steps, uint64_t at_end,
		   const struct found *wanted, size_t count)
{
	struct cm_event event[EVENTS] = {0};
	struct cm_stretch *item;
	size_t found, i;

	for (i = 0; i < steps; i++)
		event[i] = (struct cm_event){.action = (uint8_t)step[i].action,
					     .addr = BASE + step[i].addr * PAGE,
					     .size = step[i].size * PAGE};
	find(event, steps, at_end, &item, &found);
	assert_int_equal(found, count);
	qsort(item, found, sizeof(*item), by_place);
	for (i = 0; i < count; i++)
		if (item[i].addr != BASE + wanted[i].addr * PAGE ||
		    item[i].size != wanted[i].size * PAGE || item[i].begin != wanted[i].begin ||
		    item[i].end != wanted[i].end)
			fail_msg("stretch %zu is [%llu, +%llu), from %u to %u", i,
				 (unsigned long long)((item[i].addr - BASE) / PAGE),
				 (unsigned long long)(item[i].size / PAGE), item[i].begin,
				 item[i].end);
	free(item);
}

#define EXPECT(step, at_end, wanted)                                   \
	expect(step, sizeof(step) / sizeof((step)[0]), at_end, wanted, \
	       sizeof(wanted) / sizeof((wanted)[0]))

CM_TEST(an_end_finds_its_beginning)
{
	static const struct step steps[] = {
		{CM_ACTION_SEGMENT_ALLOC, 0, 4}, {CM_ACTION_SEGMENT_FREE, 0, 4},
		{CM_ACTION_ALLOC, 0, 4},         {CM_ACTION_SEGMENT_FREE, 8, 1},
		{CM_ACTION_SEGMENT_ALLOC, 0, 2},
	};
	static const struct found wanted[] = {
		{0, 4, 0, 1}, {0, 2, 4, CM_NEVER}, {8, 1, CM_BEFORE, 3}};

	EXPECT(steps, 2, wanted);
}

/* Pages come and go in other portions than they are unmapped in. */
CM_TEST(parts_have_beginnings_of_their_own)
{
	static const struct step steps[] = {{MAP, 2, 2},   {MAP, 4, 4}, {MAP, 9, 1},
					    {UNMAP, 3, 1}, {MAP, 3, 1}, {UNMAP, 8, 2}};
	static const struct found wanted[] = {
		{0, 2, CM_BEFORE, CM_NEVER},
		{2, 1, 0, CM_NEVER},
		{3, 1, 0, 3},
		{3, 1, 4, CM_NEVER},
		{4, 4, 1, CM_NEVER},
		{8, 1, CM_BEFORE, 5},
		{9, 1, 2, 5},
	};

	EXPECT(steps, 8, wanted);
}

/* What is there after an end was not there before it, whoever lost its beginning. */
CM_TEST(a_lost_beginning_is_after_the_end_before_it)
{
	static const struct step steps[] = {{MAP, 0, 4}, {UNMAP, 1, 2}, {UNMAP, 2, 1}};
	static const struct found wanted[] = {
		{0, 1, 0, CM_NEVER}, {1, 2, 0, 1},        {1, 1, 1, CM_NEVER},
		{2, 1, 1, 2},        {2, 1, 2, CM_NEVER}, {3, 1, 0, CM_NEVER},
	};

	EXPECT(steps, 4, wanted);
}

CM_TEST(sizes_that_cannot_be_are_passed_over)
{
	const struct cm_event event[] = {
		{.action = MAP, .addr = BASE, .size = 0},
		{.action = UNMAP, .addr = BASE, .size = 0},
		{.action = UNMAP, .addr = BASE, .size = UINT64_MAX},
		{.action = MAP, .addr = UINT64_MAX, .size = 1},
	};
	struct cm_stretch *item;
	size_t count;

	find(event, 4, 0, &item, &count);
	assert_int_equal(count, 0);
	free(item);
}

/* So many that to look through all for each of them does not end. */
CM_TEST(many_come_to_an_end)
{
	struct cm_event *event = calloc(MANY, sizeof(*event));
	struct cm_stretch *item;
	size_t count, i;

	assert_non_null(event);
	for (i = 0; i < MANY; i++)
		event[i] = (struct cm_event){.action = i < MANY / 2 ? MAP : UNMAP,
					     .addr = BASE + (i * 7919 & (MANY / 2 - 1)) * PAGE,
					     .size = PAGE};
	find(event, MANY, 0, &item, &count);
	assert_int_equal(count, MANY / 2);
	for (i = 0; i < count; i++)
		assert_int_equal(item[i].end - item[i].begin, MANY / 2);
	free(item);
	free(event);
}
