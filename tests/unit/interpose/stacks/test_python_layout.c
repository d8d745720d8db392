/* SPDX-License-Identifier: MIT */
/* Which versions of CPython are known, and what _PyRuntime of a version says. */
#include "interpose/stacks/python_layout.h"

#include <string.h>

#include "tests/unit/cmocka_all.h"

#define WORDS 64

CM_TEST(versions_are_known_by_their_number)
{
	static const struct {
		const char *version;
		enum cm_python how;
	} cases[] = {
		{"3.9.2 (default, Feb 28 2021, 17:03:44)", CM_PYTHON_UNCHECKED},
		{"3.10.13", CM_PYTHON_UNCHECKED},
		{"3.11.7 (main)", CM_PYTHON_UNCHECKED},
		{"3.12.1+", CM_PYTHON_UNCHECKED},
		{"3.8.1", CM_PYTHON_UNKNOWN},
		{"3.99.0", CM_PYTHON_UNKNOWN},
		{"3.11", CM_PYTHON_UNKNOWN},
		{"2.7.18", CM_PYTHON_UNKNOWN},
		{"", CM_PYTHON_UNKNOWN},
		{"3.10.16 (e0c1d2, Feb 2025, 16:31:56) [PyPy 7.3.19 with GCC]", CM_PYTHON_UNKNOWN},
		{"3.13.0 experimental free-threading build (main)", CM_PYTHON_FREE_THREADED},
		/* Without _PyRuntime. */
		{"3.13.0 (main)", CM_PYTHON_UNKNOWN},
	};
	struct cm_python_layout layout;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(cm_python_layout_find(cases[i].version, NULL, &layout),
				 cases[i].how);
}

static void fill(uint64_t *runtime, uint64_t minor)
{
	size_t i;

	memcpy(runtime, "xdebugpy", 8);
	runtime[1] = (3u << 8 | minor) << 16 | 0xf0;
	runtime[2] = 0;
	for (i = 3; i < WORDS; i++)
		runtime[i] = i;
}

CM_TEST(the_runtime_says_where_things_are)
{
	struct cm_python_layout layout;
	uint64_t runtime[WORDS];

	fill(runtime, 13);
	assert_int_equal(cm_python_layout_find("3.13.0 (main)", runtime, &layout),
			 CM_PYTHON_UNCHECKED);
	assert_int_equal(layout.minor, 13);
	assert_int_equal(layout.state_frame, 23);
	assert_int_equal(layout.cframe_frame, CM_PYTHON_ABSENT);
	assert_int_equal(layout.frame_code, 30);
	assert_int_equal(layout.code_start, 43);
	fill(runtime, 14);
	assert_int_equal(cm_python_layout_find("3.14.2 (main)", runtime, &layout),
			 CM_PYTHON_UNCHECKED);
	assert_int_equal(layout.frame_flag, 36);
	fill(runtime, 15);
	assert_int_equal(cm_python_layout_find("3.15.2 (main)", runtime, &layout),
			 CM_PYTHON_UNCHECKED);
	assert_int_equal(layout.frame_flag, 44);
	assert_int_equal(layout.code_line, 52);
}

CM_TEST(a_runtime_that_makes_no_sense_is_refused)
{
	struct cm_python_layout layout = {.minor = 1};
	uint64_t runtime[WORDS];

	fill(runtime, 13);
	assert_int_equal(cm_python_layout_find("3.14.0", runtime, &layout), CM_PYTHON_UNKNOWN);
	runtime[0]++;
	assert_int_equal(cm_python_layout_find("3.13.0", runtime, &layout), CM_PYTHON_UNKNOWN);
	runtime[0]--;
	runtime[2] = 1;
	assert_int_equal(cm_python_layout_find("3.13.0", runtime, &layout),
			 CM_PYTHON_FREE_THREADED);
	runtime[2] = 0;
	/* The largest offset of a word of a frame, and one beyond it. */
	runtime[30] = CM_PYTHON_FRAME_BYTES - 8;
	assert_int_equal(cm_python_layout_find("3.13.0", runtime, &layout), CM_PYTHON_UNCHECKED);
	runtime[30]++;
	layout.minor = 1;
	assert_int_equal(cm_python_layout_find("3.13.0", runtime, &layout), CM_PYTHON_UNKNOWN);
	runtime[30] = UINT64_MAX;
	assert_int_equal(cm_python_layout_find("3.13.0", runtime, &layout), CM_PYTHON_UNKNOWN);
	assert_int_equal(layout.minor, 1);
}
