/* SPDX-License-Identifier: MIT */
/* The part of the reader that copies counters while their owner changes them. */
#include "stats/reader.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "stats/counters.h"

/*
 * A busy writer changes a row some 30 times while it is copied, but is interrupted a few hundred
 * times a second for longer than a copy takes: so many tries meet such a moment almost surely, and
 * take 30 ms at most. A writer that stands still in the middle of a change will not go on.
 */
#define TRIES       40000
#define TRIES_STILL 2000

/* How often rows were copied in vain. */
struct tries {
	uint32_t copies;
	uint32_t last; /* the sequence number that was found last, or the sum of several */
	uint32_t still;
};

/* Whether to try again. */
static bool may_retry(struct tries *tries, uint32_t number)
{
	tries->still = number == tries->last ? tries->still + 1 : 0;
	tries->last = number;
	if (tries->still > TRIES_STILL / 2)
		(void)sched_yield();
	return tries->copies < TRIES && tries->still < TRIES_STILL;
}

/*
 * Copies the counters of pinned memory between two equal, even values of their sequence number.
 * That is the first word of the copy, and pread copies upwards; the system calls keep the two
 * readings apart.
 */
int cm_reader_read_host(struct cm_reader *reader, struct cm_host_row *ret_row, bool *ret_torn)
{
	const uint64_t offset = offsetof(struct cm_header, host);
	struct tries tries = {0};
	uint32_t after;
	int err;

	do {
		err = cm_reader_read_at(reader, offset, ret_row, sizeof(*ret_row));
		if (!err)
			err = cm_reader_read_at(reader, offset, &after, sizeof(after));
		if (err)
			return err;
		tries.copies++;
		*ret_torn = ret_row->seq != after || after & 1;
	} while (*ret_torn && may_retry(&tries, after));
	return 0;
}

void cm_shard_map_add(struct cm_shard_map *map, uint32_t index, const struct cm_device_row *row)
{
	const uint32_t named = row->first_shard;
	uint32_t first = index;

	if (named)
		first = named <= index && map->first[named - 1] == named - 1 ? named - 1
									     : CM_DEVICES_MAX;
	map->first[index] = (uint8_t)(row->flags & CM_DEVICE_USED ? first : CM_DEVICES_MAX);
}

/* Rows of the device table by now: a device gets shards while it is read. */
static int count_device_rows(struct cm_reader *reader, uint32_t *ret_rows)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];
	uint32_t rows;
	int err;

	err = cm_reader_read_at(reader, offsetof(struct cm_header, table[CM_TABLE_DEVICE].rows),
				&rows, sizeof(rows));
	if (err)
		return err;
	rows = rows < table->capacity ? rows : table->capacity;
	*ret_rows = rows < CM_DEVICES_MAX ? rows : CM_DEVICES_MAX;
	return 0;
}

/* One row as it is. Its number is the first word, and pread copies upwards. */
static int copy_device_row(struct cm_reader *reader, uint32_t index, struct cm_device_row *row)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];
	const size_t bytes = sizeof(*row) < table->stride ? sizeof(*row) : table->stride;

	memset((char *)row + bytes, 0, sizeof(*row) - bytes);
	return cm_reader_read_at(reader, table->offset + (uint64_t)index * table->stride, row,
				 bytes);
}

int cm_reader_read_shards(struct cm_reader *reader, struct cm_shard_map *ret_map)
{
	struct cm_shard_map map;
	uint32_t rows, i;
	int err;

	memset(map.first, CM_DEVICES_MAX, sizeof(map.first));
	err = count_device_rows(reader, &rows);
	for (i = 0; i < rows && !err; i++) {
		err = copy_device_row(reader, i, &reader->shard);
		if (!err)
			cm_shard_map_add(&map, i, &reader->shard);
	}
	if (!err)
		*ret_map = map;
	return err;
}

/* The shards of a device, while they are read. */
struct shards {
	uint64_t ours; /* rows, a bit each */
	uint64_t others;
	uint32_t seq[CM_DEVICES_MAX];
	struct tries tries;
};

static void add_shard(struct cm_reader *reader, struct shards *shards, uint32_t i, uint32_t first)
{
	const struct cm_device_row *shard = &reader->shard;
	const uint64_t bit = UINT64_C(1) << i;

	if (!(shard->flags & CM_DEVICE_USED))
		return;
	if (shard->first_shard != first + 1) {
		/* Unless it is being filled. */
		shards->others |= shard->seq & 1 ? 0 : bit;
		return;
	}
	shards->ours |= bit;
	shards->seq[i] = shard->seq;
	cm_device_row_add(&reader->row, shard);
	reader->row.event_next += shard->event_next;
	reader->row.event_cleared += shard->event_cleared;
}

/* Copies the first row, then all others that are of its device by now: a shard that comes later has
 * not been used while the first row stayed as it is. */
static int sum_shards(struct cm_reader *reader, uint32_t first, struct shards *shards)
{
	uint32_t rows, i;
	int err;

	err = copy_device_row(reader, first, &reader->row);
	if (!err && (!(reader->row.flags & CM_DEVICE_USED) || reader->row.first_shard))
		err = -ENOENT;
	if (!err)
		err = count_device_rows(reader, &rows);
	if (err)
		return err;
	shards->ours = UINT64_C(1) << first;
	shards->seq[first] = reader->row.seq;
	shards->tries.copies++;
	for (i = first + 1; i < rows && !err; i++) {
		if (shards->others >> i & 1)
			continue;
		err = copy_device_row(reader, i, &reader->shard);
		if (!err)
			add_shard(reader, shards, i, first);
		shards->tries.copies++;
	}
	return err;
}

/* Whether the rows were of different moments, or in the middle of a change: their numbers are odd
 * or others by now. *ret_sum: of the numbers. */
static int find_torn(struct cm_reader *reader, const struct shards *shards, bool *ret_torn,
		     uint32_t *ret_sum)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];
	uint32_t sum = 0, now, i;
	bool torn = false;
	int err;

	for (i = 0; i < CM_DEVICES_MAX; i++) {
		if (!(shards->ours >> i & 1))
			continue;
		err = cm_reader_read_at(reader, table->offset + (uint64_t)i * table->stride, &now,
					sizeof(now));
		if (err)
			return err;
		torn |= now != shards->seq[i] || now & 1;
		sum += now;
	}
	*ret_torn = torn;
	*ret_sum = sum;
	return 0;
}

int cm_reader_read_device(struct cm_reader *reader, uint32_t index, struct cm_device_row *ret_row,
			  bool *ret_torn)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];
	struct cm_device_row *row = &reader->row;
	struct shards shards = {.others = 0};
	uint32_t sum;
	bool torn;
	int err;

	if (index >= table->rows || index >= CM_DEVICES_MAX || table->stride < sizeof(row->seq))
		return -ERANGE;
	do {
		err = sum_shards(reader, index, &shards);
		if (!err)
			err = find_torn(reader, &shards, &torn, &sum);
		if (err)
			return err;
	} while (torn && may_retry(&shards.tries, sum));
	row->name[sizeof(row->name) - 1] = '\0';
	row->pci[sizeof(row->pci) - 1] = '\0';
	*ret_row = *row;
	*ret_torn = torn;
	return 0;
}
