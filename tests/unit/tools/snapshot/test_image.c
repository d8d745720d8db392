/* SPDX-License-Identifier: MIT */
/* Copies of a region whose process runs, one whose file shrinks among them. */
#include "tools/snapshot/image.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "stats/region.h"
#include "stats/tick.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"
#include "tools/output/text.h"

#define BLOCKS   20000u
#define MANY     (BLOCKS + 100000u) /* more than there is room for at first */
#define SECOND   UINT64_C(1000000000)
#define NEAR_NS  50000 /* of two readings of a clock, also under valgrind */
#define RING_ROW 4u

struct fixture {
	char dir[OWN_REGION_DIR_BYTES];
	struct cm_region *region;
	struct cm_reader *reader;
};

/* As a process that works meanwhile: see take_meanwhile. */
static struct {
	struct cm_region *region;
	void (*work)(struct cm_region *region);
	int left;
} meanwhile;

int __real_cm_reader_refresh(struct cm_reader *reader);
int __wrap_cm_reader_refresh(struct cm_reader *reader);

int __wrap_cm_reader_refresh(struct cm_reader *reader)
{
	if (meanwhile.left && !--meanwhile.left)
		meanwhile.work(meanwhile.region);
	return __real_cm_reader_refresh(reader);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char why[CM_READER_WHY_BYTES];
	struct cm_block *block;
	uint32_t i;

	if (!f)
		return -1;
	*state = f;
	if (own_region_make(f->dir, (struct cm_region_params){0}, &f->region) ||
	    cm_region_commit(f->region, CM_TABLE_BLOCK, BLOCKS))
		return -1;
	for (i = 1; i < BLOCKS; i++) {
		block = cm_region_row(f->region, CM_TABLE_BLOCK, i);
		block->addr = UINT64_C(512) * i;
	}
	return cm_reader_open(f->region->path, &f->reader, why);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	cm_reader_close(f->reader);
	own_region_remove(f->dir, f->region);
	free(f);
	return 0;
}

static struct cm_image *take(struct fixture *f)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_image *image;

	assert_int_equal(cm_image_take(f->reader, SECOND, &image, why), 0);
	return image;
}

/* `work` is done before the header is read for the nth time. */
static struct cm_image *take_meanwhile(struct fixture *f, void (*work)(struct cm_region *region),
				       int nth)
{
	meanwhile.region = f->region;
	meanwhile.work = work;
	meanwhile.left = nth;
	return take(f);
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(a_copy_has_every_row)
{
	struct fixture *f = *state;
	const struct cm_block *block;
	struct cm_image *image;
	uint32_t i;

	/* One that comes after the file was opened. */
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_BLOCK, BLOCKS + 1), 0);
	((struct cm_block *)cm_region_row(f->region, CM_TABLE_BLOCK, BLOCKS))->addr = 77;
	image = take(f);
	assert_int_equal(image->saved.life, CM_LIFE_RUNNING);
	assert_true(image->table[CM_TABLE_BLOCK].count > BLOCKS);
	block = image->table[CM_TABLE_BLOCK].rows;
	for (i = 1; i < BLOCKS; i++)
		assert_int_equal(block[i].addr, 512 * (uint64_t)i);
	assert_int_equal(block[BLOCKS].addr, 77);
	cm_image_free(image);
}

static void add_many_blocks(struct cm_region *region)
{
	assert_int_equal(cm_region_commit(region, CM_TABLE_BLOCK, MANY), 0);
	((struct cm_block *)cm_region_row(region, CM_TABLE_BLOCK, MANY - 1))->addr = 78;
}

TEST(a_table_that_outgrows_its_room_gets_more)
{
	struct fixture *f = *state;
	struct cm_image *image = take_meanwhile(f, add_many_blocks, 2);
	const struct cm_image_table *table;

	table = &image->table[CM_TABLE_BLOCK];
	assert_int_equal(image->saved.moment, CM_MOMENT_STILL);
	assert_int_equal(table->count, image->header.table[CM_TABLE_BLOCK].rows);
	assert_true(table->count >= MANY);
	assert_int_equal(((const struct cm_block *)table->rows)[MANY - 1].addr, 78);
	cm_image_free(image);
}

/* Before every look from now on, for a while. */
static void add_blocks_again(struct cm_region *region)
{
	const uint32_t rows = region->header->table[CM_TABLE_BLOCK].rows + BLOCKS;

	assert_int_equal(cm_region_commit(region, CM_TABLE_BLOCK, rows), 0);
	meanwhile.left = rows < 10 * BLOCKS;
}

TEST(a_table_that_grows_ever_again_gets_all_the_room_there_is)
{
	struct fixture *f = *state;
	struct cm_image *image = take_meanwhile(f, add_blocks_again, 2);

	assert_int_equal(image->table[CM_TABLE_BLOCK].count,
			 image->header.table[CM_TABLE_BLOCK].rows);
	assert_true(image->table[CM_TABLE_BLOCK].count > 3 * BLOCKS);
	cm_image_free(image);
}

#define CLAIMED (1u << 26) /* rows of 64 bytes */

/* More than there is room for at first, and then more than there is room for. */
static void claim_blocks(struct cm_region *region)
{
	struct cm_table_row *table = &region->header->table[CM_TABLE_BLOCK];

	if (table->rows == BLOCKS)
		meanwhile.left = 2;
	table->rows += table->rows == BLOCKS ? MANY : (1u << 20) + MANY;
}

static long peak_kib(void)
{
	struct rusage usage;

	(void)getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* The tool would take memory for which the owner of the file has not paid. */
TEST(room_for_rows_that_do_not_come_is_no_memory)
{
	struct fixture *f = *state;
	struct cm_table_row *table = &f->region->header->table[CM_TABLE_BLOCK];
	const long before = peak_kib();
	char why[CM_READER_WHY_BYTES];

	(void)mallopt(M_PERTURB, 0); /* as Meson sets it, it would fill all */
	cm_reader_close(f->reader);
	table->rows = BLOCKS;
	table->capacity = CLAIMED;
	assert_int_equal(
		own_region_truncate(f->region, (off_t)(table->offset + UINT64_C(64) * CLAIMED)), 0);
	assert_int_equal(cm_reader_open(f->region->path, &f->reader, why), 0);
	cm_image_free(take_meanwhile(f, claim_blocks, 2));
	assert_true(table->rows > 1u << 20);
	assert_true(peak_kib() - before < 1 << 20);
}

static void begin_ring(struct cm_region *region)
{
	assert_int_equal(cm_region_commit(region, CM_TABLE_EVENT,
					  region->header->table[CM_TABLE_EVENT].ring),
			 0);
	((struct cm_event *)cm_region_row(region, CM_TABLE_EVENT, RING_ROW))->number = RING_ROW + 1;
}

TEST(a_ring_that_began_meanwhile_is_copied)
{
	struct fixture *f = *state;
	struct cm_image *image = take_meanwhile(f, begin_ring, 3);
	const struct cm_image_table *table;

	table = &image->table[CM_TABLE_EVENT];
	assert_true(table->count >= image->header.table[CM_TABLE_EVENT].ring);
	assert_int_equal(((const struct cm_event *)table->rows)[RING_ROW].number, RING_ROW + 1);
	cm_image_free(image);
}

/* As one that dies at once does: its clocks were read once, and a moment ago. */
TEST(a_process_that_has_just_begun_has_times)
{
	struct fixture *f = *state;
	struct cm_header *header = f->region->header;
	struct cm_image *image;
	uint64_t before;

	do {
		before = cm_time_now();
		header->tick_base = cm_tick();
		header->time_base_ns = cm_time_now();
	} while (header->time_base_ns - before > NEAR_NS); /* nobody came in between */
	image = take(f);
	assert_true(image->header.tick_last > header->tick_base);
	assert_int_equal(cm_image_time(image, header->tick_base), header->time_base_ns);
	cm_image_free(image);
}

TEST(a_file_that_shrinks_is_an_error_and_no_signal)
{
	struct fixture *f = *state;
	const uint64_t offset = f->reader->header.table[CM_TABLE_BLOCK].offset;
	struct cm_image *image = NULL;
	char why[CM_READER_WHY_BYTES];

	assert_int_equal(own_region_truncate(f->region, (off_t)(offset + 65536)), 0);
	assert_true(cm_image_take(f->reader, SECOND, &image, why) < 0);
	assert_null(image);
}
