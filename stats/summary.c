/* SPDX-License-Identifier: MIT */
#include "stats/summary.h"

#include <errno.h>
#include <stdlib.h>

#include "stats/counters.h"

#define CHUNK_ROWS 1024

/* Rows of either table, too many for a stack. */
union chunk {
	struct cm_segment segment[CHUNK_ROWS];
	struct cm_block block[CHUNK_ROWS];
};

/* The rows are foreign: differences wrap, they don't trap. */
struct cm_summary cm_summary_pool(const struct cm_device_row *row, enum cm_pool pool)
{
	const struct cm_stat4 allocation = cm_stat_read(row, pool, CM_STAT_ALLOCATION);
	const struct cm_stat4 allocated = cm_stat_read(row, pool, CM_STAT_ALLOCATED_BYTES);
	const struct cm_stat4 reserved = cm_stat_read(row, pool, CM_STAT_RESERVED_BYTES);
	const int64_t active = cm_stat_read(row, pool, CM_STAT_ACTIVE_BYTES).current;
	struct cm_summary sum = {
		.allocated = allocated.current,
		.requested = cm_stat_read(row, pool, CM_STAT_REQUESTED_BYTES).current,
		.reserved = reserved.current,
		.fragmented = cm_stat_read(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES).current,
		.peak_allocated = allocated.peak,
		.peak_reserved = reserved.peak,
		.blocks = allocation.current,
		.segments = cm_stat_read(row, pool, CM_STAT_SEGMENT).current,
		.allocs = allocation.allocated,
		.frees = allocation.freed,
	};

	sum.pending = cm_wrap_sub(active, sum.allocated);
	sum.rounding = cm_wrap_sub(active, sum.requested);
	sum.cached = cm_wrap_sub(sum.reserved, sum.allocated);
	sum.releasable = cm_wrap_sub(cm_wrap_sub(sum.cached, sum.fragmented), sum.pending);
	return sum;
}

int64_t cm_summary_other(const struct cm_device_row *row)
{
	int64_t sum = 0;
	uint32_t i;

	for (i = 0; i < CM_UNCACHED_COUNT; i++)
		if (i != CM_UNCACHED_MANAGED)
			sum = cm_wrap_add(sum, row->other_bytes[i].current);
	return sum;
}

bool cm_summary_outside(const struct cm_device_row *row, int64_t *ret_bytes)
{
	const int64_t ours = cm_wrap_add(cm_stat_current(row, CM_STAT_RESERVED_BYTES),
					 cm_summary_other(row));

	if (!row->free_seen_ns)
		return false;
	*ret_bytes = cm_wrap_sub(cm_wrap_sub((int64_t)row->total_bytes, (int64_t)row->free_bytes),
				 ours);
	/* The free memory was read some time before the rest. */
	if (*ret_bytes < 0)
		*ret_bytes = 0;
	return true;
}

double cm_hit_rate(int64_t hits, int64_t misses)
{
	const double all = (double)hits + (double)misses;

	return hits < 0 || misses < 0 || all <= 0 ? -1 : (double)hits / all;
}

double cm_fragmentation(const struct cm_survey_pool *pool)
{
	return pool->free_bytes ? 1 - (double)pool->largest_free / (double)pool->free_bytes : -1;
}

/* What a block has to know of its segment. */
struct place {
	uint8_t device; /* CM_DEVICES_MAX: not in use */
	uint8_t pool;
};

static int read_places(struct cm_reader *reader, const struct cm_shard_map *map, union chunk *chunk,
		       struct place *places, struct cm_survey *survey)
{
	const uint32_t rows = reader->header.table[CM_TABLE_SEGMENT].rows;
	uint32_t first, n, i;
	int err;

	for (first = 0; first < rows; first += n) {
		n = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS;
		err = cm_reader_read(reader, CM_TABLE_SEGMENT, first, n, chunk->segment,
				     sizeof(chunk->segment[0]));
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			const struct cm_segment *segment = &chunk->segment[i];
			const bool used = (segment->flags & CM_SEGMENT_USED) &&
					  !(segment->flags & CM_SEGMENT_HOST);
			const uint32_t device = used ? cm_shard_map_device(map, segment->device)
						     : CM_DEVICES_MAX;

			places[first + i].device = (uint8_t)device;
			places[first + i].pool = segment->flags & CM_SEGMENT_SMALL ? CM_POOL_SMALL
										   : CM_POOL_LARGE;
			if (device < CM_DEVICES_MAX && segment->flags & CM_SEGMENT_NAMED)
				survey->named_bytes[device] += segment->size;
		}
	}
	return 0;
}

static void survey_block(struct cm_survey_pool *pool, const struct cm_block *block)
{
	if (block->state == CM_BLOCK_PENDING)
		pool->pending_blocks++;
	if (block->state != CM_BLOCK_FREE)
		return;
	pool->free_blocks++;
	pool->free_bytes += block->size;
	if (block->size > pool->largest_free)
		pool->largest_free = block->size;
}

static int survey_blocks(struct cm_reader *reader, union chunk *chunk, const struct place *places,
			 struct cm_survey *survey)
{
	const uint32_t segments = reader->header.table[CM_TABLE_SEGMENT].rows;
	const uint32_t rows = reader->header.table[CM_TABLE_BLOCK].rows;
	uint32_t first, n, i;
	int err;

	for (first = 0; first < rows; first += n) {
		n = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS;
		err = cm_reader_read(reader, CM_TABLE_BLOCK, first, n, chunk->block,
				     sizeof(chunk->block[0]));
		if (err)
			return err;
		for (i = 0; i < n; i++) {
			const struct cm_block *block = &chunk->block[i];
			const struct place *at;

			if (!block->segment || block->segment >= segments)
				continue;
			at = &places[block->segment];
			if (at->device == CM_DEVICES_MAX)
				continue;
			survey_block(&survey->pool[at->device][CM_POOL_ALL], block);
			survey_block(&survey->pool[at->device][at->pool], block);
		}
	}
	return 0;
}

int cm_survey_create(struct cm_reader *reader, struct cm_survey **ret_survey)
{
	struct cm_shard_map map;
	struct cm_survey *survey;
	struct place *places;
	union chunk *chunk;
	int err = -ENOMEM;

	survey = calloc(1, sizeof(*survey));
	places = calloc(reader->header.table[CM_TABLE_SEGMENT].rows + (size_t)1, sizeof(*places));
	chunk = malloc(sizeof(*chunk));
	if (survey && places && chunk)
		err = cm_reader_read_shards(reader, &map);
	if (!err)
		err = read_places(reader, &map, chunk, places, survey);
	if (!err)
		err = survey_blocks(reader, chunk, places, survey);
	free(chunk);
	free(places);
	if (err) {
		free(survey);
		return err;
	}
	*ret_survey = survey;
	return 0;
}

void cm_survey_destroy(struct cm_survey *survey)
{
	free(survey);
}

int cm_segment_walk(struct cm_reader *reader, const struct cm_segment *segment, cm_block_fn fn,
		    void *data)
{
	uint64_t addr = segment->addr, left = segment->size;
	uint32_t index = segment->first, n;
	struct cm_block block;

	/* Bounded by the number of blocks, and by that of rows should it be a lie. */
	for (n = 0; index && n < segment->blocks && n <= cm_reader_rows_max(CM_TABLE_BLOCK); n++) {
		if (cm_reader_read(reader, CM_TABLE_BLOCK, index, 1, &block, sizeof(block)) ||
		    block.addr != addr || !block.size || block.size > left)
			return -EUCLEAN;
		fn(data, &block);
		addr += block.size;
		left -= block.size;
		index = block.next;
	}
	return left ? -EUCLEAN : 0;
}
