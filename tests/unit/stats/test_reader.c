/* SPDX-License-Identifier: MIT */
/* What a region says is read as it was written, and refused if it is damaged. */
#include "stats/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/config.h"
#include "tests/unit/stats/reader_stage.h"

/* The file system says that every file is backed in full, and more. */
static bool all_is_backed;

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);

int __wrap_fstat64(int fd, struct stat *st)
{
	const int result = __real_fstat64(fd, st);

	if (all_is_backed)
		st->st_blocks = INT64_MAX / 1024;
	return result;
}

static struct cm_device_row *add_device(struct fixture *f, uint32_t index)
{
	struct cm_device_row *row;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, index + 1), 0);
	row = cm_region_row(f->region, CM_TABLE_DEVICE, index);
	row->flags = CM_DEVICE_USED;
	row->scalar[0] = 41 + (int64_t)index;
	return row;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(a_row_reads_as_it_was_written)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn = true;

	memset(add_device(f, 1)->name, 'x', sizeof(row.name));
	open_region(f);
	assert_string_equal(f->reader->header.version, "1.2.3");
	assert_int_equal(f->reader->header.pid, getpid());
	assert_int_equal(cm_reader_read_device(f->reader, 1, &row, &torn), 0);
	assert_false(torn);
	assert_int_equal(row.scalar[0], 42);
	/* A text that fills its field ends all the same. */
	assert_int_equal(strlen(row.name), sizeof(row.name) - 1);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), -ENOENT);
	assert_int_equal(cm_reader_read_device(f->reader, 2, &row, &torn), -ERANGE);
}

TEST(rows_added_later_are_seen_after_a_refresh)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn;

	open_region(f);
	(void)add_device(f, 0);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), -ERANGE);
	assert_int_equal(cm_reader_refresh(f->reader), 0);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
}

TEST(the_record_claims_no_more_than_the_tables_hold)
{
	struct fixture *f = *state;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_STACK, 10), 0);
	f->region->header->record.stack_words = 11;
	f->region->header->record.text_bytes = UINT64_MAX;
	open_region(f);
	assert_int_equal(f->reader->header.record.stack_words, 10);
	assert_int_equal(f->reader->header.record.text_bytes, 0);
}

TEST(a_writer_that_died_in_a_change_is_read_and_marked)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn = false;

	add_device(f, 0)->seq = 7;
	open_region(f);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
	assert_true(torn);
	assert_int_equal(row.scalar[0], 41);
}

/* A reader that finds two values equal in all its copies has seen no half of a change. */
TEST(a_busy_writer_is_never_seen_in_the_middle)
{
	struct fixture *f = *state;
	struct cm_device_row *to = add_device(f, 0), row = {0};
	bool torn;
	pid_t child;
	int i;

	to->scalar[1] = to->scalar[CM_SCALAR_COUNT - 1] = 0;
	child = fork();
	if (!child) {
		for (;;) {
			__atomic_store_n(&to->seq, to->seq + 1, __ATOMIC_SEQ_CST);
			__atomic_fetch_add(&to->scalar[1], 1, __ATOMIC_SEQ_CST);
			__atomic_fetch_add(&to->scalar[CM_SCALAR_COUNT - 1], 1, __ATOMIC_SEQ_CST);
			__atomic_store_n(&to->seq, to->seq + 1, __ATOMIC_SEQ_CST);
		}
	}
	open_region(f);
	for (i = 0; i < 200; i++) {
		assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
		if (!torn && row.scalar[1] != row.scalar[CM_SCALAR_COUNT - 1])
			break;
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_int_equal(i, 200);
}

/* A later minor version: rows are longer than ours. An older one: they are shorter. */
TEST(rows_of_other_lengths_are_read_as_far_as_they_go)
{
	struct fixture *f = *state;
	struct cm_table_row *table = &f->region->header->table[CM_TABLE_SEGMENT];
	struct cm_segment rows[2];
	char *at;

	assert_int_equal(cm_region_commit(f->region, CM_TABLE_SEGMENT, 4), 0);
	at = cm_region_row(f->region, CM_TABLE_SEGMENT, 0);
	table->capacity = 2;
	table->rows = 2;
	table->stride = sizeof(rows[0]) + 8;
	memset(at, 0xff, 2 * (size_t)table->stride);
	(void)memset(at + table->stride, 1, 8);
	open_region(f);
	memset(rows, 0x55, sizeof(rows));
	assert_int_equal(cm_reader_read(f->reader, CM_TABLE_SEGMENT, 0, 2, rows, sizeof(rows[0])),
			 0);
	assert_int_equal(rows[1].addr, UINT64_C(0x0101010101010101));
	cm_reader_close(f->reader);
	f->reader = NULL;

	table->stride = 8;
	open_region(f);
	assert_int_equal(cm_reader_read(f->reader, CM_TABLE_SEGMENT, 0, 2, rows, sizeof(rows[0])),
			 0);
	assert_int_equal(rows[1].addr, UINT64_MAX);
	assert_int_equal(rows[1].size, 0);
	assert_int_equal(rows[1].reserved, 0);
	assert_int_equal(cm_reader_read(f->reader, CM_TABLE_SEGMENT, 1, 2, rows, sizeof(rows[0])),
			 -ERANGE);
	assert_int_equal(
		cm_reader_read(f->reader, CM_TABLE_SEGMENT, UINT32_MAX, 1, rows, sizeof(rows[0])),
		-ERANGE);
}

static void spoil_magic(struct cm_header *header)
{
	header->magic ^= 1;
}

static void drop_magic(struct cm_header *header)
{
	header->magic = 0;
}

static void raise_major(struct cm_header *header)
{
	header->major++;
}

static void shorten_header(struct cm_header *header)
{
	header->header_bytes = sizeof(*header) - 1;
}

static void lengthen_header(struct cm_header *header)
{
	header->header_bytes = UINT32_MAX;
}

static void lengthen_file(struct cm_header *header)
{
	header->file_bytes++;
}

static void drop_stride(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].stride = 0;
}

static void raise_stride(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].stride = UINT32_MAX;
}

static void raise_rows(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].rows = header->table[CM_TABLE_BLOCK].capacity + 1;
}

static void raise_capacity(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].capacity = UINT32_MAX;
}

static void move_table_far(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].offset = UINT64_MAX - 1;
}

static void move_table_to_the_end(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].offset = header->file_bytes - 1;
}

static void move_table_into_the_header(struct cm_header *header)
{
	header->table[CM_TABLE_BLOCK].offset = 0;
}

static void spoil_ring(struct cm_header *header)
{
	header->table[CM_TABLE_EVENT].ring = 3;
	header->table[CM_TABLE_EVENT].capacity = 3;
}

/* One damage at a time; what is not damaged stays readable. */
TEST(damaged_headers_are_refused_with_a_reason)
{
#define CASE(spoil, result)           \
	{                             \
#spoil, spoil, result \
	}
	static const struct {
		const char *name;
		void (*spoil)(struct cm_header *header);
		int result;
	} cases[] = {
		CASE(spoil_magic, -EBADMSG),
		CASE(drop_magic, -EAGAIN),
		CASE(raise_major, -EPROTONOSUPPORT),
		CASE(shorten_header, -EBADMSG),
		CASE(lengthen_header, -EBADMSG),
		CASE(lengthen_file, -EBADMSG),
		CASE(drop_stride, -EBADMSG),
		CASE(raise_stride, -EBADMSG),
		CASE(raise_rows, -EBADMSG),
		CASE(raise_capacity, -EBADMSG),
		CASE(move_table_far, -EBADMSG),
		CASE(move_table_to_the_end, -EBADMSG),
		CASE(move_table_into_the_header, -EBADMSG),
		CASE(spoil_ring, -EBADMSG),
	};
	struct fixture *f = *state;
	const struct cm_header good = *f->region->header;
	size_t i;
	int err;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		*f->region->header = good;
		cases[i].spoil(f->region->header);
		f->why[0] = '\0';
		err = cm_reader_open(f->region->path, &f->reader, f->why);
		if (err != cases[i].result || !f->why[0])
			fail_msg("%s: result %d, reason '%s'", cases[i].name, err, f->why);
		assert_null(f->reader);
	}
	*f->region->header = good;
	open_region(f);
}

TEST(tables_are_as_long_as_the_options_let_them_be)
{
	static const struct {
		enum cm_table table;
		uint32_t rows;
		int result;
	} cases[] = {
		{CM_TABLE_EVENT, (uint32_t)CM_EVENTS_MAX * CM_DEVICES_MAX, 0},
		{CM_TABLE_EVENT, (uint32_t)CM_EVENTS_MAX * CM_DEVICES_MAX + 1, -EBADMSG},
		{CM_TABLE_HOST_EVENT, (uint32_t)CM_EVENTS_MAX, 0},
		{CM_TABLE_STACK, UINT32_MAX, 0}, /* CM_STACK_MIB_MAX, but for a word */
		{CM_TABLE_TEXT, CM_TEXT_MIB_MAX * (1u << 20), 0},
		{CM_TABLE_DEVICE, 1u << 26, -EBADMSG},
	};
	struct fixture *f = *state;
	const struct cm_header good = *f->region->header;
	struct cm_table_row *row;
	uint64_t end;
	size_t i;
	int err;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		*f->region->header = good;
		row = &f->region->header->table[cases[i].table];
		row->capacity = row->rows = cases[i].rows;
		end = row->offset + (uint64_t)row->stride * row->capacity;
		if (end > good.file_bytes)
			assert_int_equal(own_region_truncate(f->region, (off_t)end), 0);
		all_is_backed = true;
		err = cm_reader_open(f->region->path, &f->reader, f->why);
		all_is_backed = false;
		if (err != cases[i].result)
			fail_msg("table %d, %u rows: result %d, reason '%s'", cases[i].table,
				 cases[i].rows, err, f->why);
		cm_reader_close(f->reader);
		f->reader = NULL;
	}
	*f->region->header = good;
}

/* The file is as long as they say, and holds nothing. */
TEST(rows_that_nothing_backs_are_refused)
{
	const uint32_t most = (uint32_t)((UINT64_C(256) << 20) / sizeof(struct cm_block));
	struct fixture *f = *state;
	struct cm_table_row *row = &f->region->header->table[CM_TABLE_BLOCK];

	row->rows = row->capacity;
	assert_true(row->rows > most + most / 8);
	assert_int_equal(cm_reader_open(f->region->path, &f->reader, f->why), -EBADMSG);
	assert_non_null(strstr(f->why, "damaged: it claims"));
	/* So much may be zeros that the file system does not keep. */
	row->rows = most - most / 8;
	open_region(f);
	row->rows = row->capacity;
	assert_int_equal(cm_reader_refresh(f->reader), -EBADMSG);
	row->rows = 0;
}

TEST(a_file_that_shrinks_is_an_error_not_a_signal)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn;

	(void)add_device(f, 0);
	open_region(f);
	assert_int_equal(own_region_truncate(f->region, sizeof(struct cm_header)), 0);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), -EIO);
	assert_int_equal(own_region_truncate(f->region, 0), 0);
	assert_int_equal(cm_reader_refresh(f->reader), -EBADMSG);
	assert_int_equal(cm_reader_life(f->reader), CM_LIFE_RUNNING);
	/* The owner here has it mapped still. */
	assert_int_equal(own_region_truncate(f->region, sizeof(struct cm_header)), 0);
}

TEST(what_is_no_regular_file_is_refused)
{
	struct fixture *f = *state;
	char path[64];

	assert_int_equal(cm_reader_open(f->dir, &f->reader, f->why), -EBADMSG);
	(void)snprintf(path, sizeof(path), "%s/other", f->dir);
	assert_int_equal(symlink(f->region->path, path), 0);
	assert_int_equal(cm_reader_open(path, &f->reader, f->why), -ELOOP);
	(void)unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(cm_reader_open(path, &f->reader, f->why), -EBADMSG);
	(void)unlink(path);
	assert_int_equal(cm_reader_open(path, &f->reader, f->why), -ENOENT);
	assert_null(f->reader);
}
