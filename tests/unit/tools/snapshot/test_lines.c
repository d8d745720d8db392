/* SPDX-License-Identifier: MIT */
/* Stacks on one line: which frame comes first, what is skipped, and where a line breaks. */
#include "tools/snapshot/lines.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

static struct cm_snap_frame frames[] = {
	{.function = "cudaMalloc", .file = "??", .module = "/usr/lib/libcudart.so.13"},
	{.function = "void thrust::grow<int>(int)",
	 .file = "/t/vector.h",
	 .module = "/a/solver",
	 .line = 9},
	{.function = "Model::forward(int)",
	 .file = "/src/model.cu",
	 .module = "/a/solver",
	 .line = 88},
	{.function = "run(int)", .file = "/src/run.cu", .module = "/a/solver", .line = 7},
	{.function = "main", .file = "/src/main.cu", .module = "/a/solver", .line = 3},
	{.function = "_start", .file = "??", .module = "/a/solver"},
	{.function = "step", .file = "/src/train.py", .module = "", .line = 31, .python = true},
	{.function = "malloc",
	 .file = "/v/lib/python3.12/site-packages/cupy/memory.py",
	 .module = "",
	 .line = 5,
	 .python = true},
};

static const struct cm_view line = {CM_BY_CALLER, CM_VIEW_DEPTH, false, CM_VIEW_ROWS};

/* The text of a stack of these frames, each a digit. */
static const char *spell(const char *digits, const char *hide, const struct cm_view *view)
{
	static char text[1024];
	uint32_t list[16];
	struct cm_snapshot snapshot = {
		.frame = frames, .frames = sizeof(frames) / sizeof(frames[0]), .frame_list = list};
	struct cm_snap_stack stack = {.count = (uint32_t)strlen(digits)};
	uint32_t i;
	char *spelled;

	for (i = 0; i < stack.count; i++)
		list[i] = (uint32_t)(digits[i] - '0');
	cm_layers_mark(&snapshot, hide);
	spelled = cm_stack_spell(&snapshot, &stack, view);
	assert_non_null(spelled);
	(void)snprintf(text, sizeof(text), "%s", spelled);
	free(spelled);
	return text;
}

CM_TEST(the_programs_own_code_comes_first)
{
	assert_string_equal(spell("01245", NULL, &line),
			    "Model::forward model.cu:88 < main main.cu:3");
	assert_string_equal(spell("012345", NULL, &line),
			    "Model::forward model.cu:88 < run run.cu:7 < main main.cu:3");
	/* If nothing is the program's own, a library is better than none. */
	assert_string_equal(spell("01", NULL, &line), "thrust::grow vector.h:9");
	assert_string_equal(spell("0", NULL, &line), "cudaMalloc");
	assert_string_equal(spell("", NULL, &line), "(no stack recorded)");
}

CM_TEST(python_is_named_before_what_it_called)
{
	assert_string_equal(spell("0645", NULL, &line), "step train.py:31 < main main.cu:3");
	assert_string_equal(spell("026", NULL, &line), "step train.py:31 (Model::forward)");
	assert_string_equal(spell("07", NULL, &line), "malloc memory.py:5");
}

CM_TEST(frames_can_be_hidden_and_shown)
{
	const struct cm_view one = {CM_BY_CALLER, 1, false, CM_VIEW_ROWS};
	const struct cm_view stack = {CM_BY_STACK, CM_VIEW_DEPTH, false, CM_VIEW_ROWS};
	const struct cm_view full = {CM_BY_STACK, CM_VIEW_DEPTH, true, CM_VIEW_ROWS};

	assert_string_equal(spell("012345", "forward", &line), "run run.cu:7 < main main.cu:3");
	assert_string_equal(spell("012345", "x,Mo*rd,/run.cu", &line), "main main.cu:3");
	assert_string_equal(spell("012345", "", &one), "Model::forward model.cu:88");
	assert_string_equal(spell("012", NULL, &stack),
			    "cudaMalloc < thrust::grow vector.h:9 < Model::forward model.cu:88");
	assert_string_equal(
		spell("01", NULL, &full),
		"cudaMalloc libcudart.so.13 < void thrust::grow<int>(int) /t/vector.h:9");
}

static const char *print(size_t used, const char *text, bool full)
{
	static char printed[1024];
	FILE *file = tmpfile();
	size_t length;

	assert_non_null(file);
	cm_line_print(file, used, text, full);
	rewind(file);
	length = fread(printed, 1, sizeof(printed) - 1, file);
	printed[length] = '\0';
	(void)fclose(file);
	return printed;
}

/* A file has 80 columns. */
CM_TEST(lines_break_between_frames)
{
	assert_string_equal(print(50, "short a.c:1 < other b.c:2", false),
			    "short a.c:1 < other b.c:2\n");
	assert_string_equal(print(50, "sixteen_letters_ a.c:1 < other b.c:2", false),
			    "sixteen_letters_ a.c:1\n"
			    "                                                  < other b.c:2\n");
	assert_string_equal(print(50, "a::very::long::name::that::ends.c:1 < b", false),
			    "..."
			    ":long::name::that::ends.c:1\n"
			    "                                                  < b\n");
	assert_string_equal(print(50, "a::very::long::name::that::ends.c:1", true),
			    "a::very::long::name::that::ends.c:1\n");
	/* The third frame fits behind the second in 80 columns, but not behind the 50. */
	assert_string_equal(
		print(50, "a.c:1 < sixteen_letters_x b.c:2 < c.c:3", true),
		"a.c:1\n"
		"                                                  < sixteen_letters_x b.c:2\n"
		"                                                  < c.c:3\n");
}
