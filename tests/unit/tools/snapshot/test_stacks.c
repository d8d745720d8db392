/* SPDX-License-Identifier: MIT */
/* Stacks of a table as frames with names, of tables that are too good to be true among them. */
#include "tools/snapshot/stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define STACKS  600u
#define INLINED CM_STACK_FRAMES_MAX
#define ADDRESS UINT64_C(0x1001)
#define NAMES   24u

struct fixture {
	struct cm_image *image;
	struct cm_snapshot *snapshot;
	uint64_t words[1 + 3 * STACKS];
	struct cm_site site;
	struct cm_frame frames[INLINED];
	struct cm_module modules[2];
	char texts[32];
	char names[32];
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	/* The header's type is aligned to a page. */
	if (!f || !(f->image = aligned_alloc(_Alignof(struct cm_image), sizeof(*f->image))))
		return -1;
	memset(f->image, 0, sizeof(*f->image));
	memcpy(f->texts, "\0libone.so\0libtwo.so", 21);
	memcpy(f->names, "\0inlined\0_PyEval_Vector", NAMES);
	f->image->table[CM_TABLE_TEXT] = (struct cm_image_table){f->texts, 21};
	f->image->table[CM_TABLE_NAME] = (struct cm_image_table){f->names, NAMES};
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_snapshot_destroy(f->snapshot);
	free(f->image);
	free(f);
	return 0;
}

static void use_words(struct fixture *f, uint32_t count)
{
	f->image->table[CM_TABLE_STACK] = (struct cm_image_table){f->words, count};
	f->image->header.record.stack_words = count;
	assert_int_equal(cm_snapshot_create(f->image, NULL, &f->snapshot), 0);
}

static const char *function_of(const struct fixture *f, uint32_t id, uint32_t frame)
{
	const struct cm_snap_stack *stack = cm_snapshot_stack(f->snapshot, id);

	assert_true(frame < stack->count);
	return cm_stack_frame(f->snapshot, stack, frame)->function;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

/* Another object has taken the place of the first. */
TEST(an_address_means_what_its_generation_says)
{
	struct fixture *f = *state;

	f->modules[0] = (struct cm_module){
		.start = 0x1000, .end = 0x2000, .bias = 0x1000, .path = 1};
	f->modules[1] = (struct cm_module){
		.start = 0x1000, .end = 0x2000, .path = 11, .first = 1, .last = UINT32_MAX};
	f->image->table[CM_TABLE_MODULE] = (struct cm_image_table){f->modules, 2};
	f->words[1] = cm_stack_word(1, 0, 0);
	f->words[2] = ADDRESS;
	f->words[3] = cm_stack_word(2, 0, 1);
	f->words[4] = f->words[5] = ADDRESS;
	f->words[6] = cm_stack_word(1, 0, 0);
	f->words[7] = ADDRESS;
	use_words(f, 8);
	assert_string_equal(function_of(f, 1, 0), "libone.so+0x0");
	assert_string_equal(function_of(f, 3, 0), "libtwo.so+0x1000");
	assert_string_equal(function_of(f, 3, 1), "libtwo.so+0x1000");
	/* Equal ones are one. */
	assert_ptr_equal(cm_snapshot_stack(f->snapshot, 6), cm_snapshot_stack(f->snapshot, 1));
	assert_int_equal(f->snapshot->stacks, 3);
	assert_int_equal(f->snapshot->broken_stacks, 0);
}

TEST(the_interpreters_rows_beside_python_frames_are_folded)
{
	struct fixture *f = *state;

	f->frames[0].function = 1;
	f->frames[1].function = 9;
	f->site = (struct cm_site){.address = ADDRESS, .count = 2};
	f->image->table[CM_TABLE_SITE] = (struct cm_image_table){&f->site, 1};
	f->image->table[CM_TABLE_FRAME] = (struct cm_image_table){f->frames, 2};
	f->words[1] = cm_stack_word(2, 0, 0);
	f->words[2] = cm_frame_python(1, 0);
	f->words[3] = ADDRESS;
	f->words[4] = cm_stack_word(1, 0, 0);
	f->words[5] = ADDRESS;
	use_words(f, 6);
	assert_int_equal(cm_snapshot_stack(f->snapshot, 1)->count, 2);
	assert_string_equal(function_of(f, 1, 1), "inlined");
	/* There was no Python frame to read. */
	assert_int_equal(cm_snapshot_stack(f->snapshot, 4)->count, 2);
	assert_string_equal(function_of(f, 4, 1), "_PyEval_Vector");
}

/* Every stack has an address that is said to be as many functions as there can be frames. */
TEST(a_small_table_does_not_fill_the_memory)
{
	struct fixture *f = *state;
	uint32_t i, last = 1 + 3 * (STACKS - 1);

	for (i = 0; i < INLINED; i++)
		f->frames[i] = (struct cm_frame){.function = 1, .line = i};
	f->site = (struct cm_site){.address = ADDRESS, .count = INLINED};
	f->image->table[CM_TABLE_SITE] = (struct cm_image_table){&f->site, 1};
	f->image->table[CM_TABLE_FRAME] = (struct cm_image_table){f->frames, INLINED};
	for (i = 0; i < STACKS; i++) {
		f->words[1 + 3 * i] = cm_stack_word(2, 0, 0);
		f->words[2 + 3 * i] = ADDRESS;
		f->words[3 + 3 * i] = cm_frame_python(i + 1, 0);
	}
	use_words(f, 1 + 3 * STACKS);
	assert_int_equal(cm_snapshot_stack(f->snapshot, 1)->count, INLINED + 1);
	assert_string_equal(function_of(f, 1, INLINED - 1), "inlined");
	assert_true(f->snapshot->frame_list_count < STACKS * INLINED / 2);
	assert_int_equal(cm_snapshot_stack(f->snapshot, last)->count, 0);
	assert_int_equal(f->snapshot->broken_stacks + f->snapshot->stacks, STACKS + 1);
}

/* The names of 74 addresses and a part of the next come to just what this table may have. */
TEST(names_end_where_there_are_too_many)
{
	enum { SITES = 80, FULL = 74, PART = 64 };
	struct fixture *f = *state;
	struct cm_site sites[SITES] = {0};
	struct cm_frame frames[2 * INLINED] = {0};
	uint32_t i;

	for (i = 0; i < 2 * INLINED; i++)
		frames[i] = (struct cm_frame){.function = 1, .line = i};
	for (i = 0; i < SITES; i++) {
		sites[i] = (struct cm_site){.address = ADDRESS + i,
					    .first = i > FULL ? INLINED : 0,
					    .count = i == FULL ? PART : INLINED};
		f->words[1 + 2 * i] = cm_stack_word(1, 0, 0);
		f->words[2 + 2 * i] = ADDRESS + i;
	}
	f->image->table[CM_TABLE_SITE] = (struct cm_image_table){sites, SITES};
	f->image->table[CM_TABLE_FRAME] = (struct cm_image_table){frames, 2 * INLINED};
	use_words(f, 1 + 2 * SITES);
	assert_int_equal(cm_snapshot_stack(f->snapshot, 1 + 2 * FULL)->count, PART);
	/* All others have a frame each that says no more than where it is. */
	assert_int_equal(f->snapshot->frames, INLINED + SITES - FULL - 1);
}
