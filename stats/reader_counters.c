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

/* How often rows were copied without a consistent copy. */
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
 * Copies a row that starts with its sequence number, between two equal, even values of it. The
 * number is the first word of the copy, and pread copies upwards; the system calls keep the two
 * readings apart.
 */
static int read_row(struct cm_reader *reader, uint64_t offset, void *row, size_t bytes,
		    struct tries *tries, bool *ret_torn)
{
	uint32_t before, after;
	int err;

	do {
		err = cm_reader_read_at(reader, offset, row, bytes);
		if (!err)
			err = cm_reader_read_at(reader, offset, &after, sizeof(after));
		if (err)
			return err;
		memcpy(&before, row, sizeof(before));
		tries->copies++;
		*ret_torn = before != after || after & 1;
	} while (*ret_torn && may_retry(tries, after));
	return 0;
}

int cm_reader_read_host(struct cm_reader *reader, struct cm_host_row *ret_row, bool *ret_torn)
{
	struct tries tries = {0};

	return read_row(reader, offsetof(struct cm_header, host), ret_row, sizeof(*ret_row), &tries,
			ret_torn);
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

static uint64_t offset_of_row(const struct cm_reader *reader, uint32_t index)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];

	return table->offset + (uint64_t)index * table->stride;
}

/* A word of a row as it is by now; 0 where the rows are too short for it. */
static int read_word(struct cm_reader *reader, uint32_t index, size_t offset, uint32_t *ret_word)
{
	*ret_word = 0;
	if (reader->header.table[CM_TABLE_DEVICE].stride < offset + sizeof(*ret_word))
		return 0;
	return cm_reader_read_at(reader, offset_of_row(reader, index) + offset, ret_word,
				 sizeof(*ret_word));
}

#define READ_WORD(reader, index, field, ret_word) \
	read_word(reader, index, offsetof(struct cm_device_row, field), ret_word)

int cm_reader_read_shards(struct cm_reader *reader, struct cm_shard_map *ret_map)
{
	struct cm_device_row *row = &reader->shard;
	struct cm_shard_map map;
	uint32_t rows = 0, i;
	int err;

	memset(map.first, CM_DEVICES_MAX, sizeof(map.first));
	err = count_device_rows(reader, &rows);
	for (i = 0; i < rows && !err; i++) {
		err = READ_WORD(reader, i, flags, &row->flags);
		if (!err)
			err = READ_WORD(reader, i, first_shard, &row->first_shard);
		if (!err)
			cm_shard_map_add(&map, i, row);
	}
	if (!err)
		*ret_map = map;
	return err;
}

/* Each row is consistent by itself. Counts its copies. */
static int read_device_row(struct cm_reader *reader, uint32_t index, struct cm_device_row *row,
			   uint32_t *copies, bool *torn)
{
	const uint32_t stride = reader->header.table[CM_TABLE_DEVICE].stride;
	const size_t bytes = sizeof(*row) < stride ? sizeof(*row) : stride;
	struct tries tries = {0};
	bool row_torn;
	int err;

	memset((char *)row + bytes, 0, sizeof(*row) - bytes);
	err = read_row(reader, offset_of_row(reader, index), row, bytes, &tries, &row_torn);
	if (err)
		return err;
	*copies += tries.copies;
	*torn |= row_torn;
	return row->flags & CM_DEVICE_USED ? 0 : -ENOENT;
}

/* Adds the later shards to the first one. A shard that comes meanwhile stops the others first. */
static int add_shards(struct cm_reader *reader, uint32_t first, uint32_t *copies, bool *torn)
{
	struct cm_device_row *sum = &reader->row, *shard = &reader->shard;
	uint32_t rows, of, i;
	int err;

	err = count_device_rows(reader, &rows);
	if (err)
		return err;
	for (i = first + 1; i < rows && !err; i++) {
		err = READ_WORD(reader, i, first_shard, &of);
		if (err || of != first + 1)
			continue;
		err = read_device_row(reader, i, shard, copies, torn);
		if (!err) {
			cm_device_row_add(sum, shard);
			sum->event_next += shard->event_next;
			sum->event_cleared += shard->event_cleared;
		}
		err = err == -ENOENT ? 0 : err;
	}
	return err;
}

/*
 * The rows are copied one after the other, each between two equal values of its own number. All of
 * them make one sum if meanwhile the shards were not stopped: only then do counters move between
 * rows. In the first row's copy the number of stops comes after all that it guards.
 */
int cm_reader_read_device(struct cm_reader *reader, uint32_t index, struct cm_device_row *ret_row,
			  bool *ret_torn)
{
	const struct cm_table_row *table = &reader->header.table[CM_TABLE_DEVICE];
	struct cm_device_row *row = &reader->row;
	struct tries tries = {0};
	uint32_t stops, first;
	bool torn, stopped;
	int err;

	if (index >= table->rows || index >= CM_DEVICES_MAX || table->stride < sizeof(row->seq))
		return -ERANGE;
	err = READ_WORD(reader, index, first_shard, &first);
	if (err || first)
		return err ? err : -ENOENT;
	do {
		torn = false;
		err = read_device_row(reader, index, row, &tries.copies, &torn);
		if (!err)
			err = add_shards(reader, index, &tries.copies, &torn);
		if (!err)
			err = READ_WORD(reader, index, stops, &stops);
		if (err)
			return err;
		stopped = stops != row->stops || stops & 1;
	} while (stopped && may_retry(&tries, stops));
	row->name[sizeof(row->name) - 1] = '\0';
	row->pci[sizeof(row->pci) - 1] = '\0';
	*ret_row = *row;
	*ret_torn = torn || stopped;
	return 0;
}
