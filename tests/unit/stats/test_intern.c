/* SPDX-License-Identifier: MIT */
#include "stats/intern.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/unit/cmocka_all.h"

static bool no_memory; /* for the index */

void *__real_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);

void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	if (no_memory) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	return __real_mmap64(addr, bytes, prot, flags, fd, offset);
}

struct fixture {
	struct cm_region *region;
	struct cm_record *record;
	struct cm_intern_table stacks;
	struct cm_intern_table texts;
};

/* With tables of `words` and `bytes`; 0: the default. */
static int set_up(void **state, uint64_t words, uint64_t bytes)
{
	const struct cm_region_params params = {.version = "1",
						.backing = CM_BACKING_MEMFD,
						.stack_bytes = words * sizeof(uint64_t),
						.text_bytes = bytes};
	struct fixture *f = calloc(1, sizeof(*f));

	*state = f;
	no_memory = false;
	if (!f || cm_region_create(&params, &f->region))
		return -1;
	f->record = &f->region->header->record;
	cm_intern_table_init(&f->stacks, f->region, CM_TABLE_STACK, &f->record->stack_words,
			     &f->record->stacks_lost, &f->record->stack_count);
	cm_intern_table_init(&f->texts, f->region, CM_TABLE_TEXT, &f->record->text_bytes,
			     &f->record->texts_lost, NULL);
	return 0;
}

static int setup(void **state)
{
	return set_up(state, 0, 0);
}

static int setup_small(void **state)
{
	return set_up(state, 100, 8);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_intern_table_fini(&f->stacks);
	cm_intern_table_fini(&f->texts);
	cm_region_remove(f->region);
	cm_region_abandon(f->region);
	free(f);
	return 0;
}

static uint32_t add_text(struct fixture *f, const char *text)
{
	return cm_intern_table_add(&f->texts, text, strlen(text) + 1);
}

static const char *text_at(struct fixture *f, uint32_t id)
{
	return cm_region_row(f->region, CM_TABLE_TEXT, id);
}

/* A stack of three frames that tell its number. */
static uint32_t add_stack(struct fixture *f, uint64_t number)
{
	const uint64_t words[] = {cm_stack_word(3, 0, 0), number, number * 7, 1};

	return cm_intern_table_add(&f->stacks, words, sizeof(words));
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(equal_things_are_there_once)
{
	struct fixture *f = *state;
	const uint32_t one = add_text(f, "one"), two = add_text(f, "two");

	assert_int_equal(one, 1);
	assert_int_equal(two, 5);
	assert_int_equal(add_text(f, "one"), one);
	assert_int_equal(add_text(f, "two"), two);
	assert_string_equal(text_at(f, one), "one");
	assert_string_equal(text_at(f, two), "two");
	assert_int_equal(f->record->text_bytes, 9);
	assert_int_equal(f->record->texts_lost, 0);
}

/* A text that another begins or ends with is another; so are stacks that differ in one word. */
TEST(parts_are_things_of_their_own)
{
	static const char *const texts[] = {"", "a", "ab", "abcdefgh", "abcdefghi", "bcdefgh", "h"};
	uint32_t ids[7];
	struct fixture *f = *state;
	size_t i, j;

	for (i = 0; i < 7; i++)
		ids[i] = add_text(f, texts[i]);
	for (i = 0; i < 7; i++) {
		assert_string_equal(text_at(f, ids[i]), texts[i]);
		assert_int_equal(add_text(f, texts[i]), ids[i]);
		for (j = 0; j < i; j++)
			assert_int_not_equal(ids[i], ids[j]);
	}
}

TEST(many_things_are_found_again)
{
	struct fixture *f = *state;
	const uint64_t *words;
	uint64_t i;
	uint32_t id;

	/* More than the first index holds, several times over. */
	for (i = 0; i < 50000; i++)
		assert_int_equal(add_stack(f, i), 1 + 4 * i);
	for (i = 0; i < 50000; i++) {
		id = add_stack(f, i);
		assert_int_equal(id, 1 + 4 * i);
		words = cm_region_row(f->region, CM_TABLE_STACK, id);
		assert_true(cm_stack_frames(words[0]) == 3 && words[1] == i && words[2] == i * 7);
	}
	assert_int_equal(f->record->stack_words, 1 + 4 * 50000);
	assert_int_equal(f->record->stack_count, 50000);
	assert_int_equal(f->record->stacks_lost, 0);
}

CM_TEST_WITH(a_full_table_keeps_what_it_has_and_counts_the_rest, setup_small, teardown)
{
	struct fixture *f = *state;
	uint64_t i;

	for (i = 0; i < 24; i++)
		assert_int_equal(add_stack(f, i), 1 + 4 * i);
	for (i = 24; i < 30; i++)
		assert_int_equal(add_stack(f, i), 0);
	assert_int_equal(add_stack(f, 23), 1 + 4 * 23);
	assert_int_equal(f->record->stacks_lost, 6);
	assert_int_equal(f->record->stack_words, 97);
	assert_int_equal(f->record->stack_count, 24);
	assert_int_equal(add_text(f, "1234567"), 0);
	assert_int_equal(add_text(f, "123456"), 1);
	assert_int_equal(add_text(f, ""), 0);
	assert_int_equal(f->record->texts_lost, 2);
}

TEST(a_table_that_cannot_grow_loses_but_does_not_fail)
{
	struct fixture *f = *state;
	uint64_t i;

	no_memory = true;
	for (i = 0; i < 4096; i++)
		(void)add_stack(f, i);
	assert_int_equal(f->record->stacks_lost, 4096 - 2048);
	assert_int_equal(add_stack(f, 2047), 1 + 4 * 2047);
	no_memory = false;
	assert_int_equal(add_stack(f, 2048), 1 + 4 * 2048);
}

TEST(without_an_index_everything_is_lost)
{
	struct fixture *f = *state;

	cm_intern_table_fini(&f->texts);
	no_memory = true;
	cm_intern_table_init(&f->texts, f->region, CM_TABLE_TEXT, &f->record->text_bytes,
			     &f->record->texts_lost, NULL);
	assert_int_equal(add_text(f, "x"), 0);
	assert_int_equal(f->record->texts_lost, 1);
}

#define THREADS 4
#define NUMBERS 20000

struct worker {
	pthread_t thread;
	struct fixture *f;
	uint32_t seed;
	uint32_t id[NUMBERS];
};

static void *add_all(void *arg)
{
	struct worker *worker = arg;
	uint32_t i;

	/* Each in an order of its own. */
	for (i = 0; i < NUMBERS; i++)
		worker->id[(i * 7919 + worker->seed) % NUMBERS] = add_stack(
			worker->f, (i * 7919 + worker->seed) % NUMBERS);
	return NULL;
}

TEST(threads_agree_on_every_id)
{
	struct fixture *f = *state;
	struct worker *worker = calloc(THREADS, sizeof(*worker));
	uint32_t i, t;

	assert_non_null(worker);
	for (t = 0; t < THREADS; t++) {
		worker[t].f = f;
		worker[t].seed = t * 5003;
		assert_int_equal(pthread_create(&worker[t].thread, NULL, add_all, &worker[t]), 0);
	}
	for (t = 0; t < THREADS; t++)
		(void)pthread_join(worker[t].thread, NULL);
	for (i = 0; i < NUMBERS; i++)
		for (t = 0; t < THREADS; t++)
			if (!worker[0].id[i] || worker[t].id[i] != worker[0].id[i])
				fail_msg("stack %u is %u and %u", i, worker[0].id[i],
					 worker[t].id[i]);
	assert_int_equal(f->record->stack_words, 1 + 4 * NUMBERS);
	free(worker);
}
