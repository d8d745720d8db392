/* SPDX-License-Identifier: MIT */
/* Stacks written into a region by hand, as one-line descriptions. */
#include "interpose/stacks/frames.h"

#include <stdio.h>
#include <string.h>

#include "interpose/process/process.h"
#include "stats/region.h"
#include "tests/unit/cmocka_all.h"

#define STACK 8u /* where a stack begins */

static struct cm_region *region;

struct cm_region *__wrap_cm_process_region(void);
struct cm_region *__wrap_cm_process_region(void)
{
	return region;
}

static uint32_t add_text(uint32_t at, const char *text)
{
	memcpy(cm_region_row(region, CM_TABLE_TEXT, at), text, strlen(text) + 1);
	return at;
}

static const char *describe(const uint64_t *frame, uint64_t n, size_t bytes)
{
	static char text[200];
	uint64_t *word = cm_region_row(region, CM_TABLE_STACK, STACK);

	word[0] = n;
	memcpy(word + 1, frame, n * sizeof(*frame));
	cm_frames_describe(STACK, text, bytes);
	return text;
}

CM_TEST(frames_of_python_come_before_those_of_c)
{
	const uint64_t frame[] = {
		(uint64_t)(uintptr_t)describe,
		cm_frame_python(88, add_text(1, "forward\n/home/model.py")),
		cm_frame_python(301, add_text(100, "step\ntrain.py")),
	};

	assert_string_equal(describe(frame, 3, 200), "forward model.py:88 < step train.py:301");
}

CM_TEST(names_that_the_program_wrote_can_hold_anything)
{
	const uint64_t frame[] = {cm_frame_python(7, add_text(200, "a\tb\x7f\nc\x1b.py")),
				  cm_frame_python(8, add_text(300, "no file"))};
	/* 8-bit control characters too, alone and as UTF-8; letters of any language stay. */
	const uint64_t other = cm_frame_python(9,
					       add_text(400, "\x9b\xc2\x9b\n\xc3\xa9t\xc3\xa9.py"));

	assert_string_equal(describe(frame, 2, 200), "a?b? c?.py:7 < no file ?:8");
	assert_string_equal(describe(&other, 1, 200), "?? \xc3\xa9t\xc3\xa9.py:9");
}

CM_TEST(a_line_is_cut_where_it_ends)
{
	const uint64_t frame[] = {cm_frame_python(88, add_text(1, "forward\n/home/model.py")),
				  cm_frame_python(301, add_text(100, "step\ntrain.py"))};

	assert_string_equal(describe(frame, 2, 24), "forward model.py:88 ...");
	assert_string_equal(describe(frame, 2, 19), "forward model.p...");
}

CM_TEST(a_place_in_no_object_is_a_number)
{
	const uint64_t frame[] = {0x1235};

	assert_string_equal(describe(frame, 1, 200), "0x1234");
}

CM_TEST(no_stack_is_an_unknown_place)
{
	char text[40];

	cm_frames_describe(0, text, sizeof(text));
	assert_string_equal(text, "an unknown place");
}

static int open_region(void **state)
{
	const struct cm_region_params params = {.backing = CM_BACKING_PRIVATE};

	(void)state;
	return cm_region_create(&params, &region) ||
	       cm_region_commit(region, CM_TABLE_STACK, 4096) ||
	       cm_region_commit(region, CM_TABLE_TEXT, 4096);
}

static int close_region(void **state)
{
	(void)state;
	cm_region_abandon(region);
	return 0;
}

int main(void)
{
	return cm_run_tests(open_region, close_region);
}
