/* SPDX-License-Identifier: MIT */
/* A process without Python. */
#include "interpose/stacks/python.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

/* The zero-initialised data: the linker's names for its bounds. */
extern char __bss_start[], _end[];

static size_t count_pages_in_use(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t start = ((uintptr_t)__bss_start + page - 1) & -page;
	const size_t pages = ((uintptr_t)_end - start + page - 1) / page;
	unsigned char *in_use = malloc(pages);
	size_t i, n = 0;

	if (!in_use || mincore((void *)start, pages * page, in_use))
		fail();
	for (i = 0; i < pages; i++)
		n += in_use[i] & 1;
	free(in_use);
	return n;
}

/* Touching the table would cost every child of every program. */
CM_TEST(forgetting_nothing_takes_no_memory)
{
	size_t before;

	cm_python_find();
	before = count_pages_in_use();
	cm_python_forget();
	assert_int_equal(count_pages_in_use(), before);
}

static uint32_t add_text(const char *text)
{
	(void)text;
	return 1;
}

CM_TEST(there_are_no_frames)
{
	struct cm_python_frames frames = {.count = 1, .cut = true};
	uint32_t minor = 1;

	cm_python_find();
	cm_python_stack(&frames, 1, add_text);
	assert_int_equal(frames.count, 0);
	assert_false(frames.cut);
	assert_int_equal(cm_python_state(&minor), CM_PYTHON_NONE);
	assert_int_equal(minor, 0);
	assert_false(cm_python_is_eval((uintptr_t)add_text));
}
