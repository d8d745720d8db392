/* SPDX-License-Identifier: MIT */
/* The figures of a device are the sums over its shards, at one moment. */
#include "stats/reader.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/counters.h"
#include "tests/unit/stats/reader_stage.h"

static struct cm_device_row *row_at(struct fixture *f, uint32_t index)
{
	assert_int_equal(cm_region_commit(f->region, CM_TABLE_DEVICE, index + 1), 0);
	return cm_region_row(f->region, CM_TABLE_DEVICE, index);
}

/* A row of the device whose first shard is row `first`. */
static struct cm_device_row *add_shard(struct fixture *f, uint32_t index, uint32_t first)
{
	struct cm_device_row *row = row_at(f, index);

	row->flags = CM_DEVICE_USED;
	row->ordinal = 3;
	row->first_shard = index == first ? 0 : first + 1;
	return row;
}

static struct cm_device_row read_device(struct fixture *f, uint32_t index)
{
	struct cm_device_row row;
	bool torn = true;

	assert_int_equal(cm_reader_read_device(f->reader, index, &row, &torn), 0);
	assert_false(torn);
	return row;
}

#define TEST(test) CM_TEST_WITH(test, setup, teardown)

TEST(figures_are_sums_over_the_shards)
{
	struct fixture *f = *state;
	struct cm_device_row *first = add_shard(f, 0, 0), *other = add_shard(f, 1, 1);
	struct cm_device_row *second = add_shard(f, 2, 0), *third = add_shard(f, 4, 0);
	struct cm_device_row row;
	bool torn;

	cm_counters_alloc(first, CM_POOL_SMALL, 512, 100);
	cm_counters_alloc(second, CM_POOL_LARGE, 4096, 4000);
	cm_counters_free(second, CM_POOL_LARGE, 4096);
	cm_counters_alloc(third, CM_POOL_LARGE, 8192, 8000);
	cm_counters_alloc(other, CM_POOL_LARGE, 1 << 20, 1 << 20);
	first->heaps = second->heaps = third->heaps = 2;
	first->total_bytes = 1 << 30;
	first->free_bytes = 1 << 29;
	first->event_next = 7;
	first->event_cleared = 2;
	second->event_next = 5;
	third->event_next = 4;
	third->event_cleared = 1;
	cm_stat4_raise(&first->other_bytes[CM_UNCACHED_VMM], 10);
	cm_stat4_raise(&third->other_bytes[CM_UNCACHED_VMM], 20);
	third->scalar[CM_SCALAR_num_ooms] = 6;
	open_region(f);
	row = read_device(f, 0);
	assert_int_equal(cm_stat_current(&row, CM_STAT_ALLOCATED_BYTES), 512 + 8192);
	assert_int_equal(cm_stat_current(&row, CM_STAT_ACTIVE_BYTES), 512 + 4096 + 8192);
	assert_int_equal(cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES).peak,
			 512 + 4096 + 8192);
	assert_int_equal(cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATION).allocated, 3);
	assert_int_equal(cm_stat_read(&row, CM_POOL_LARGE, CM_STAT_ALLOCATION).freed, 1);
	assert_int_equal(row.other_bytes[CM_UNCACHED_VMM].peak, 30);
	assert_int_equal(row.scalar[CM_SCALAR_num_ooms], 6);
	assert_int_equal(row.event_next, 16);
	assert_int_equal(row.event_cleared, 3);
	assert_int_equal(row.heaps, 2);
	assert_int_equal(row.total_bytes, 1 << 30);
	assert_int_equal(row.free_bytes, 1 << 29);
	row = read_device(f, 1);
	assert_int_equal(cm_stat_current(&row, CM_STAT_ALLOCATED_BYTES), 1 << 20);
	/* A later shard is no device. */
	assert_int_equal(cm_reader_read_device(f->reader, 2, &row, &torn), -ENOENT);
	assert_int_equal(cm_reader_read_device(f->reader, 3, &row, &torn), -ENOENT);
	assert_int_equal(cm_reader_read_device(f->reader, 4, &row, &torn), -ENOENT);
}

/* What is wrong belongs to no device, and no figure counts it. */
TEST(a_row_of_a_damaged_region_belongs_to_no_device)
{
	static const uint32_t cases[] = {
		4, /* itself */
		5, /* behind it */
		3, /* a later shard */
		2, /* a row that is not in use */
		CM_DEVICES_MAX,
		CM_DEVICES_MAX + 1,
		UINT32_MAX,
	};
	struct fixture *f = *state;
	struct cm_device_row *wild, row;
	struct cm_shard_map map;
	bool torn;
	size_t i;

	add_shard(f, 0, 0)->scalar[0] = 1;
	add_shard(f, 2, 0)->scalar[0] = 2;
	wild = add_shard(f, 3, 0);
	wild->scalar[0] = 100;
	open_region(f);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		wild->first_shard = cases[i];
		assert_int_equal(cm_reader_read_shards(f->reader, &map), 0);
		assert_int_equal(cm_shard_map_device(&map, 2), 0);
		if (cm_shard_map_device(&map, 3) != CM_DEVICES_MAX)
			fail_msg("first_shard %u", cases[i]);
		assert_int_equal(cm_reader_read_device(f->reader, 3, &row, &torn), -ENOENT);
		assert_int_equal(read_device(f, 0).scalar[0], 3);
		assert_int_equal(cm_reader_read_device(f->reader, 1, &row, &torn), -ENOENT);
		assert_int_equal(cm_reader_read_device(f->reader, 2, &row, &torn), -ENOENT);
	}
	wild->first_shard = 1;
	assert_int_equal(read_device(f, 0).scalar[0], 103);
}

TEST(the_map_leads_each_row_to_its_device)
{
	struct fixture *f = *state;
	struct cm_shard_map map;
	uint32_t i;

	open_region(f);
	assert_int_equal(cm_reader_read_shards(f->reader, &map), 0);
	for (i = 0; i < CM_DEVICES_MAX + 2; i++)
		assert_int_equal(cm_shard_map_device(&map, i), CM_DEVICES_MAX);
	(void)add_shard(f, 0, 0);
	(void)add_shard(f, 1, 1);
	(void)add_shard(f, 2, 1);
	(void)add_shard(f, CM_DEVICES_MAX - 1, 0);
	assert_int_equal(cm_reader_read_shards(f->reader, &map), 0);
	assert_int_equal(cm_shard_map_device(&map, 0), 0);
	assert_int_equal(cm_shard_map_device(&map, 1), 1);
	assert_int_equal(cm_shard_map_device(&map, 2), 1);
	assert_int_equal(cm_shard_map_device(&map, 3), CM_DEVICES_MAX);
	assert_int_equal(cm_shard_map_device(&map, CM_DEVICES_MAX - 1), 0);
	assert_int_equal(cm_shard_map_device(&map, CM_DEVICE_NONE), CM_DEVICES_MAX);
}

/* It takes part of the first one's peak with it: a reader that missed it would see less. */
TEST(a_shard_that_comes_later_counts_without_a_refresh)
{
	struct fixture *f = *state;

	add_shard(f, 0, 0)->scalar[0] = 1;
	open_region(f);
	assert_int_equal(read_device(f, 0).scalar[0], 1);
	add_shard(f, 1, 0)->scalar[0] = 2;
	assert_int_equal(read_device(f, 0).scalar[0], 3);
}

/* A library of before wrote shorter rows: each is a device. */
TEST(rows_without_the_field_are_first_shards)
{
	struct fixture *f = *state;
	struct cm_device_row *row = add_shard(f, 0, 0);

	/* The next row begins where this one's field would be. */
	row->seq = 2;
	memcpy(&row->first_shard, row, 2 * sizeof(uint32_t));
	(void)row_at(f, 1);
	f->region->header->table[CM_TABLE_DEVICE].stride = offsetof(struct cm_device_row,
								    first_shard);
	open_region(f);
	(void)read_device(f, 0);
	(void)read_device(f, 1);
}

TEST(a_shard_that_died_in_a_change_is_read_and_marked)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn = false;

	add_shard(f, 0, 0)->scalar[0] = 1;
	add_shard(f, 1, 0)->scalar[0] = 2;
	row_at(f, 1)->seq = 5;
	open_region(f);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
	assert_true(torn);
	assert_int_equal(row.scalar[0], 3);
}

TEST(a_process_that_died_while_it_held_its_shards_is_marked)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	bool torn = false;

	add_shard(f, 0, 0)->stops = 3;
	add_shard(f, 1, 0)->scalar[0] = 2;
	open_region(f);
	assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
	assert_true(torn);
	row_at(f, 0)->stops = 4;
	assert_int_equal(read_device(f, 0).scalar[0], 2);
}

/* Trades between the shards for ever: the sums stay. Each trade also adds to both. Between the
 * trades each shard changes by itself. */
static void trade(struct cm_device_row *const rows[2])
{
	uint32_t i;

	for (i = 0;; i++) {
		cm_counters_begin(rows[i & 1]);
		rows[i & 1]->scalar[1]++;
		rows[i & 1]->scalar[2]++;
		cm_counters_end(rows[i & 1]);
		cm_seq_begin(&rows[0]->stops);
		cm_counters_begin(rows[0]);
		cm_counters_begin(rows[1]);
		rows[i & 1]->stat[CM_POOL_ALL].peak[0] -= i;
		rows[~i & 1]->stat[CM_POOL_ALL].peak[0] += i;
		rows[i & 1]->scalar[0]++;
		rows[~i & 1]->scalar[CM_SCALAR_COUNT - 1]++;
		cm_counters_end(rows[1]);
		cm_counters_end(rows[0]);
		cm_seq_end(&rows[0]->stops);
		if (i % 64 == 0)
			(void)usleep(20);
	}
}

TEST(a_trade_between_shards_is_never_seen_in_the_middle)
{
	struct fixture *f = *state;
	struct cm_device_row *const rows[2] = {add_shard(f, 0, 0), add_shard(f, 1, 0)};
	struct cm_device_row row;
	int i, whole = 0;
	pid_t child;
	bool torn;

	rows[0]->stat[CM_POOL_ALL].peak[0] = 1000;
	child = fork();
	if (!child)
		trade(rows);
	open_region(f);
	for (i = 0; i < 200; i++) {
		assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
		whole += !torn;
		if (!torn &&
		    (row.scalar[0] != row.scalar[CM_SCALAR_COUNT - 1] ||
		     row.scalar[1] != row.scalar[2] || row.stat[CM_POOL_ALL].peak[0] != 1000))
			break;
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
	assert_int_equal(i, 200);
	assert_true(whole > 0);
}

/* One shard after the other joins, and at once gets a part of the first one's peak. */
static void join(struct fixture *f)
{
	struct cm_device_row *first = row_at(f, 0), *row;
	uint32_t i;

	for (i = 1; i < CM_DEVICES_MAX; i++) {
		(void)usleep(2000);
		row = row_at(f, i);
		cm_counters_begin(row);
		row->first_shard = 1;
		row->flags = CM_DEVICE_USED;
		cm_counters_end(row);
		cm_seq_begin(&first->stops);
		cm_counters_begin(first);
		cm_counters_begin(row);
		first->stat[CM_POOL_ALL].peak[0] -= 10;
		row->stat[CM_POOL_ALL].peak[0] += 10;
		cm_counters_end(row);
		cm_counters_end(first);
		cm_seq_end(&first->stops);
	}
	_exit(0);
}

/* Two processes change a shard each, and never pause together. */
TEST(shards_that_are_always_busy_are_read)
{
	struct fixture *f = *state;
	struct cm_device_row *rows[2] = {add_shard(f, 0, 0), add_shard(f, 1, 0)};
	struct cm_device_row row;
	pid_t child[2];
	int i, n, torn_reads = 0;
	bool torn;

	for (i = 0; i < 2; i++) {
		child[i] = fork();
		for (n = 0; !child[i]; n++) {
			cm_counters_begin(rows[i]);
			rows[i]->scalar[0]++;
			rows[i]->scalar[CM_SCALAR_COUNT - 1]++;
			cm_counters_end(rows[i]);
			if (n % 64 == 0)
				(void)usleep(20);
		}
	}
	open_region(f);
	for (i = 0; i < 100; i++) {
		assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
		torn_reads += torn;
		if (!torn && row.scalar[0] != row.scalar[CM_SCALAR_COUNT - 1])
			break;
	}
	for (n = 0; n < 2; n++) {
		(void)kill(child[n], SIGKILL);
		(void)waitpid(child[n], NULL, 0);
	}
	assert_int_equal(i, 100);
	assert_true(torn_reads < 50);
}

TEST(a_shard_that_joins_meanwhile_is_not_missed)
{
	struct fixture *f = *state;
	struct cm_device_row *first = add_shard(f, 0, 0), row;
	int status = -1;
	pid_t child;
	bool torn;

	first->stat[CM_POOL_ALL].peak[0] = 1000;
	open_region(f);
	child = fork();
	if (!child)
		join(f);
	while (!waitpid(child, &status, WNOHANG)) {
		assert_int_equal(cm_reader_read_device(f->reader, 0, &row, &torn), 0);
		if (!torn)
			assert_int_equal(row.stat[CM_POOL_ALL].peak[0], 1000);
	}
	assert_int_equal(status, 0);
	assert_int_equal(first->stat[CM_POOL_ALL].peak[0], 1000 - 10 * (CM_DEVICES_MAX - 1));
	assert_int_equal(read_device(f, 0).stat[CM_POOL_ALL].peak[0], 1000);
}
