/* SPDX-License-Identifier: MIT */
/* The tool when memory runs out: what it writes is whole, or it says that it is not. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/region.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"
#include "tools/cli/exits.h"
#include "tools/export/export.h"
#include "tools/plot/plot.h"
#include "tools/verbs/verbs.h"

#define MIB   (UINT64_C(1) << 20)
#define ADDR  UINT64_C(0x7f0000000000)
#define RING  16u
#define RANGE 17u /* place of the text */

/* The call from now on that fails, of all that are counted here; 0: none. */
static unsigned until_failure;

static int fails(void)
{
	return until_failure && !--until_failure;
}

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__real_reallocarray(void *old, size_t count, size_t bytes);
void *__wrap_reallocarray(void *old, size_t count, size_t bytes);
FILE *__real_open_memstream(char **text, size_t *bytes);
FILE *__wrap_open_memstream(char **text, size_t *bytes);

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
	return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_reallocarray(void *old, size_t count, size_t bytes)
{
	return fails() ? NULL : __real_reallocarray(old, count, bytes);
}

FILE *__wrap_open_memstream(char **text, size_t *bytes)
{
	return fails() ? NULL : __real_open_memstream(text, bytes);
}

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	struct cm_region *region;
	struct cm_source source;
};

static void *row_at(struct fixture *f, enum cm_table table, uint32_t index)
{
	assert_int_equal(cm_region_commit(f->region, table, index + 1), 0);
	return cm_region_row(f->region, table, index);
}

static void add_event(struct fixture *f, enum cm_action action, uint64_t addr, uint64_t size)
{
	struct cm_device_row *device = row_at(f, CM_TABLE_DEVICE, 0);
	struct cm_event *event = row_at(f, CM_TABLE_EVENT, (uint32_t)device->event_next);

	*event = (struct cm_event){.number = ++device->event_next,
				   .tick = 1000 * device->event_next,
				   .addr = addr,
				   .size = size,
				   .thread = 7,
				   .stack = 1,
				   .action = (uint8_t)action,
				   .pool = CM_POOL_LARGE,
				   .annotation = RANGE};
}

static void add_block(struct fixture *f, uint32_t index, uint32_t state, uint32_t stack)
{
	struct cm_block *block = row_at(f, CM_TABLE_BLOCK, index);

	*block = (struct cm_block){.addr = ADDR + (index - 1) * MIB,
				   .size = MIB,
				   .requested = state == CM_BLOCK_LIVE ? MIB - 5 : 0,
				   .prev = index - 1,
				   .next = index < 3 ? index + 1 : 0,
				   .segment = 1,
				   .state = state,
				   .stack = stack};
}

static void fill(struct fixture *f)
{
	static const char texts[] = "\0run\npython.py\0x\0a range";
	struct cm_header *header = f->region->header;
	struct cm_device_row *device = row_at(f, CM_TABLE_DEVICE, 0);
	uint64_t *words = (uint64_t *)row_at(f, CM_TABLE_STACK, 5) - 5;

	device->flags = CM_DEVICE_USED;
	*(struct cm_heap_row *)row_at(f, CM_TABLE_HEAP,
				      0) = (struct cm_heap_row){.flags = CM_HEAP_USED};
	(void)row_at(f, CM_TABLE_TEXT, sizeof(texts));
	memcpy(cm_region_row(f->region, CM_TABLE_TEXT, 0), texts, sizeof(texts));
	words[1] = cm_stack_word(2, 0, 0);
	words[2] = 0x1234;
	words[3] = cm_frame_python(31, 1);
	words[4] = cm_stack_word(1, 0, 0);
	words[5] = 0x5678;
	header->record = (struct cm_record){.events = 1,
					    .max_entries = UINT64_MAX,
					    .stack_words = 6,
					    .text_bytes = sizeof(texts)};
	*(struct cm_segment *)row_at(f, CM_TABLE_SEGMENT,
				     1) = (struct cm_segment){.addr = ADDR,
							      .size = 3 * MIB,
							      .first = 1,
							      .blocks = 3,
							      .flags = CM_SEGMENT_USED,
							      .stack = 1};
	add_block(f, 1, CM_BLOCK_LIVE, 1);
	add_block(f, 2, CM_BLOCK_FREE, 0);
	add_block(f, 3, CM_BLOCK_LIVE, 4);
	(void)row_at(f, CM_TABLE_EVENT, RING - 1);
	add_event(f, CM_ACTION_SEGMENT_ALLOC, ADDR, 3 * MIB);
	add_event(f, CM_ACTION_ALLOC, ADDR, MIB - 5);
	add_event(f, CM_ACTION_ALLOC, ADDR + MIB, 1000);
	add_event(f, CM_ACTION_ALLOC, ADDR + 2 * MIB, MIB - 5);
	add_event(f, CM_ACTION_FREE_REQUESTED, ADDR + MIB, 1000);
	add_event(f, CM_ACTION_FREES_COMPLETED, device->event_next, 0);
	add_event(f, CM_ACTION_OOM, MIB, 90 * MIB);
	header->tick_base = 0;
	header->time_base_ns = UINT64_C(1700000000) * 1000000000;
	header->tick_last = 1000000;
	header->time_last_ns = header->time_base_ns + 1000000000;
	header->state = CM_REGION_EXITED;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct cm_region_params params = {.events = RING};
	struct cm_options options = {.timeout_ns = 1};

	if (!f)
		return -1;
	*state = f;
	if (own_region_make(f->dir, params, &f->region))
		return -1;
	fill(f);
	options.region = f->region->path;
	return cm_source_open(&options, NULL, &f->source);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_source_close(&f->source);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

/* A format, or behind them a plot. False: there is none of this number. */
static bool write_one(const struct fixture *f, size_t number, FILE *file, int *ret_err)
{
	struct cm_plot_report report;
	size_t formats = 0;

	while (cm_formats[formats].name)
		formats++;
	if (number < formats)
		*ret_err = cm_formats[number].write(&f->source, file);
	else if (number < formats + CM_PLOT_COUNT)
		*ret_err = cm_plot_write(&f->source, 1, (enum cm_plot)(number - formats), file,
					 &report);
	else
		return false;
	return true;
}

/* Into a text of its own; `failure` as until_failure. */
static int write_text(const struct fixture *f, size_t number, unsigned failure, char **ret_text,
		      size_t *ret_bytes)
{
	FILE *file = __real_open_memstream(ret_text, ret_bytes);
	bool there;
	int err = 0;

	assert_non_null(file);
	until_failure = failure;
	there = write_one(f, number, file, &err);
	(void)fclose(file);
	return there ? err : -ENOENT;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

/* The first, the second, ... request for memory fails, until there is none to fail. */
TEST(what_is_written_is_whole_or_an_error)
{
	struct fixture *f = *state;
	char *whole, *text;
	size_t bytes, length, number;
	unsigned failure, left;
	int err;

	for (number = 0;; number++) {
		err = write_text(f, number, 0, &whole, &bytes);
		for (failure = 1, left = 0; !err && !left; failure++) {
			err = write_text(f, number, failure, &text, &length);
			left = until_failure;
			until_failure = 0;
			if (!err && (length != bytes || memcmp(text, whole, bytes)))
				fail_msg("writer %zu, request %u: %zu of %zu bytes for the whole",
					 number, failure, length, bytes);
			if (err && err != -ENOMEM)
				fail_msg("writer %zu, request %u: %d", number, failure, err);
			free(text);
			err = 0;
		}
		free(whole);
		if (err == -ENOENT)
			break;
		assert_true(!err || err == -ENOSYS);
	}
	assert_true(number > CM_PLOT_COUNT);
}

TEST(a_difference_is_whole_or_an_error)
{
	struct fixture *f = *state;
	char *args[] = {f->region->path, f->region->path, NULL};
	const struct cm_options options = {.args = args, .arg_count = 2, .timeout_ns = 1};
	const int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	const int nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
	unsigned failure, left = 0;
	int exit = 0;

	assert_true(out >= 0 && err >= 0 && nothing >= 0);
	(void)fflush(stdout);
	(void)dup2(nothing, STDOUT_FILENO);
	(void)dup2(nothing, STDERR_FILENO);
	for (failure = 1; !left; failure++) {
		until_failure = failure;
		exit = cm_verb_diff(&options);
		left = until_failure;
		until_failure = 0;
		if (!left && !exit)
			break;
	}
	(void)fflush(stdout);
	(void)dup2(out, STDOUT_FILENO);
	(void)dup2(err, STDERR_FILENO);
	(void)close(out);
	(void)close(err);
	(void)close(nothing);
	if (!left)
		fail_msg("request %u failed, and nothing was said", failure);
	assert_int_equal(exit, CM_EXIT_OK);
}
