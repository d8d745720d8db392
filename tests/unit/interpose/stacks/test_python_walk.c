/* SPDX-License-Identifier: MIT */
/* Frames in memory that the test lays out as an interpreter would; real ones: record_python. */
#include "interpose/stacks/python_walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

enum { STATE = 0, FRAME = 256, CODE = 512, NAME = 1024, FILE_NAME = 1280, TABLE = 1536 };
enum { CODE_TYPE = 1, TEXT_TYPE = 2, BYTE_TYPE = 3 };

struct fixture {
	struct cm_python_reader reader;
	char *memory; /* two pages, of which the second one can be made unreadable */
	size_t page;
};

static char last_text[CM_PYTHON_TEXT];

static uint32_t add_text(const char *text)
{
	(void)snprintf(last_text, sizeof(last_text), "%s", text);
	return 7;
}

static void put_word(char *at, uintptr_t word)
{
	memcpy(at, &word, sizeof(word));
}

static void put_text(char *object, const char *text)
{
	put_word(object + 8, TEXT_TYPE);
	put_word(object + 16, strlen(text));
	put_word(object + 32, 0x64); /* compact, ASCII, a byte a character */
	memcpy(object + 40, text, strlen(text) + 1);
}

/* A thread that is in "work" of "work.py", which begins at line 10. */
static void lay_out(struct fixture *f)
{
	static const char table[] = {(char)0xd0, 0, 0, (char)0xd8, 0, 0}; /* +0, then +1 */
	char *m = f->memory;

	put_word(m + STATE + 8, (uintptr_t)m + FRAME);
	put_word(m + FRAME, (uintptr_t)m + CODE);
	put_word(m + FRAME + 56, (uintptr_t)m + CODE + 192 + 2); /* the second instruction */
	put_word(m + CODE + 8, CODE_TYPE);
	put_word(m + CODE + 128, (uintptr_t)m + NAME);
	put_word(m + CODE + 112, (uintptr_t)m + FILE_NAME);
	put_word(m + CODE + 68, 10);
	put_word(m + CODE + 136, (uintptr_t)m + TABLE);
	put_text(m + NAME, "work");
	put_text(m + FILE_NAME, "work.py");
	put_word(m + TABLE + 8, BYTE_TYPE);
	put_word(m + TABLE + 16, sizeof(table));
	memcpy(m + TABLE + 32, table, sizeof(table));
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	*state = f;
	f->page = (size_t)sysconf(_SC_PAGESIZE);
	f->memory = mmap(NULL, 2 * f->page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
	if (f->memory == MAP_FAILED)
		return -1;
	f->reader = (struct cm_python_reader){
		.layout = {.minor = 12,
			   .state_frame = 8,
			   .cframe_frame = CM_PYTHON_ABSENT,
			   .frame_code = 0,
			   .frame_previous = 8,
			   .frame_place = 56,
			   .frame_flag = 70,
			   .flag_least = 3,
			   .shims = true,
			   .code_name = 128,
			   .code_file = 112,
			   .code_line = 68,
			   .code_table = 136,
			   .code_start = 192,
			   .text_ascii = 40,
			   .text_wide = 56},
		.code_type = CODE_TYPE,
		.text_type = TEXT_TYPE,
		.byte_type = BYTE_TYPE,
	};
	lay_out(f);
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_python_forget_all();
	(void)munmap(f->memory, 2 * f->page);
	free(f);
	return 0;
}

static bool walk(struct fixture *f, struct cm_python_frames *ret_frames)
{
	return cm_python_walk(&f->reader, (uintptr_t)f->memory + STATE, ret_frames,
			      CM_STACK_DEPTH_MAX, add_text);
}

#define WALK(test) CM_TEST_WITH(test, setup, teardown)

WALK(a_frame_has_a_name_a_file_and_a_line)
{
	struct fixture *f = *state;
	struct cm_python_frames frames;

	assert_true(walk(f, &frames));
	assert_int_equal(frames.count, 1);
	assert_int_equal(cm_frame_text(frames.frame[0]), 7);
	assert_int_equal(cm_frame_line(frames.frame[0]), 11);
	assert_string_equal(last_text, "work\nwork.py");
	/* Remembered: the text is not added again. */
	last_text[0] = '\0';
	assert_true(walk(f, &frames));
	assert_int_equal(cm_frame_line(frames.frame[0]), 11);
	assert_string_equal(last_text, "");
}

/* As when the layout is that of another build: whatever stands there is taken for a length. */
WALK(a_text_at_the_end_of_readable_memory_ends_the_walk)
{
	struct fixture *f = *state;
	char *name = f->memory + f->page - 56; /* its first 8 characters can be read */
	struct cm_python_frames frames;
	size_t length;

	put_word(f->memory + CODE + 128, (uintptr_t)name);
	assert_int_equal(mprotect(f->memory + f->page, f->page, PROT_NONE), 0);
	for (length = 17; length < 40; length++) {
		put_word(name + 16, length);
		assert_false(walk(f, &frames));
		assert_int_equal(frames.count, 0);
	}
}

/* Its memory was readable when it was remembered, and its length is another one now. */
WALK(a_remembered_text_that_has_grown_is_asked_for_again)
{
	struct fixture *f = *state;
	char *name = f->memory + f->page - 56;
	struct cm_python_frames frames;

	put_word(f->memory + CODE + 128, (uintptr_t)name);
	put_text(name, "practice");
	assert_true(walk(f, &frames));
	assert_int_equal(mprotect(f->memory + f->page, f->page, PROT_NONE), 0);
	assert_true(walk(f, &frames));
	put_word(name + 16, 24);
	assert_false(walk(f, &frames));
	put_word(name + 16, UINT64_MAX);
	assert_false(walk(f, &frames));
}

/* As after a code object has gone: each of these is all that tells the next one from it. */
WALK(what_takes_the_place_of_a_code_object_is_named_anew)
{
	static const struct {
		size_t at;
		char from, to;
		const char *text;
		uint32_t line;
	} cases[] = {
		{NAME + 40, 'w', 'f', "fork\nwork.py", 11},
		{NAME + 43, 'k', 'd', "word\nwork.py", 11},
		{FILE_NAME + 40 + 3, 'k', 'm', "work\nworm.py", 11},
		{FILE_NAME + 40 + 6, 'y', 'x', "work\nwork.px", 11},
		{TABLE + 32 + 3, (char)0xd8, (char)0xe0, "work\nwork.py", 12},
		{CODE + 68, 10, 20, "work\nwork.py", 21},
	};
	struct fixture *f = *state;
	struct cm_python_frames frames;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		f->memory[cases[i].at] = cases[i].from;
		assert_true(walk(f, &frames));
		assert_int_equal(cm_frame_line(frames.frame[0]), 11);
		f->memory[cases[i].at] = cases[i].to;
		last_text[0] = '\0';
		assert_true(walk(f, &frames));
		assert_string_equal(last_text, cases[i].text);
		assert_int_equal(cm_frame_line(frames.frame[0]), cases[i].line);
		f->memory[cases[i].at] = cases[i].from;
	}
}

/* Of other code at the same address, or of none. */
WALK(a_frame_without_a_code_object_ends_the_walk)
{
	struct fixture *f = *state;
	struct cm_python_frames frames;

	assert_true(walk(f, &frames));
	put_word(f->memory + CODE + 8, TEXT_TYPE);
	assert_false(walk(f, &frames));
	put_word(f->memory + FRAME, 0);
	put_word(f->memory + FRAME + 56, 0);
	assert_false(walk(f, &frames));
	assert_int_equal(frames.count, 0);
}

WALK(two_frames_with_the_same_slot_are_both_remembered)
{
	assert_true(cm_python_remember_held(1, 11));
	assert_true(cm_python_remember_held(2, 12));
	/* Neither gives way to a third one. */
	assert_false(cm_python_remember_held(3, 13));
	assert_int_equal(cm_python_recall(1), 11);
	assert_int_equal(cm_python_recall(2), 12);
	assert_int_equal(cm_python_recall(3), 0);
}
