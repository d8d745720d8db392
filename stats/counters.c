/* SPDX-License-Identifier: MIT */
#include "stats/counters.h"

#include <stddef.h>
#include <string.h>

static void lift(int64_t current, int64_t *peak)
{
	if (*peak < current)
		*peak = current;
}

bool cm_counters_lift_peak(struct cm_device_row *row, enum cm_pool pool, uint32_t stat)
{
	if (row->flags & CM_DEVICE_PART)
		return true;
	lift(row->stat[pool].current[stat], &row->stat[pool].peak[stat]);
	lift(cm_stat_current(row, (enum cm_stat)stat), &row->stat[CM_POOL_ALL].peak[stat]);
	return false;
}

bool cm_counters_lift_peaks(struct cm_device_row *row, enum cm_pool pool)
{
	bool is_part = false;
	uint32_t stat;

	for (stat = CM_STAT_ALLOCATION; stat <= CM_STAT_REQUESTED_BYTES; stat++)
		is_part |= cm_counters_lift_peak(row, pool, stat);
	return is_part;
}

/* From the first family on, a row is counters of one width up to what says whose shard it is. */
#define COUNTERS_BYTES \
	(offsetof(struct cm_device_row, first_shard) - offsetof(struct cm_device_row, stat))

void cm_device_row_add(struct cm_device_row *sum, const struct cm_device_row *row)
{
	int64_t *to = (void *)((char *)sum + offsetof(struct cm_device_row, stat));
	const int64_t *from = (const void *)((const char *)row +
					     offsetof(struct cm_device_row, stat));
	size_t i;

	for (i = 0; i < COUNTERS_BYTES / sizeof(*to); i++)
		to[i] = cm_wrap_add(to[i], from[i]);
}

/* Of an empty shard, `base` may be below zero: allocated is current + freed - base. */
static void move(struct cm_device_row *row, enum cm_pool pool, uint32_t stat, int64_t n)
{
	row->stat[pool].current[stat] += n;
	row->stat[pool].base[stat] += n;
	row->stat[pool].peak[stat] += n;
	row->stat[CM_POOL_ALL].peak[stat] += n;
}

void cm_counters_move_segment(struct cm_device_row *from, struct cm_device_row *to,
			      enum cm_pool pool, int64_t bytes)
{
	cm_counters_begin(from);
	cm_counters_begin(to);
	move(from, pool, CM_STAT_SEGMENT, -1);
	move(from, pool, CM_STAT_RESERVED_BYTES, -bytes);
	move(to, pool, CM_STAT_SEGMENT, 1);
	move(to, pool, CM_STAT_RESERVED_BYTES, bytes);
	cm_counters_end(to);
	cm_counters_end(from);
}

static void reset_peaks(struct cm_stat4 *stat, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		stat[i].peak = stat[i].current;
}

static void reset_totals(struct cm_stat4 *stat, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		stat[i].allocated = stat[i].freed = 0;
}

void cm_counters_reset_peak(struct cm_device_row *row)
{
	uint32_t pool, stat;

	cm_counters_begin(row);
	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++)
			row->stat[pool].peak[stat] =
				cm_stat_read(row, (enum cm_pool)pool, stat).current;
	reset_peaks(row->stat1, CM_STAT1_COUNT);
	reset_peaks(row->other_bytes, CM_UNCACHED_COUNT);
	reset_peaks(row->other_count, CM_UNCACHED_COUNT);
	cm_counters_end(row);
}

void cm_counters_reset_accumulated(struct cm_device_row *row)
{
	uint32_t pool;

	cm_counters_begin(row);
	for (pool = CM_POOL_SMALL; pool < CM_POOL_COUNT; pool++) {
		memcpy(row->stat[pool].base, row->stat[pool].current, sizeof(row->stat[pool].base));
		memset(row->stat[pool].freed, 0, sizeof(row->stat[pool].freed));
	}
	reset_totals(row->stat1, CM_STAT1_COUNT);
	reset_totals(row->other_bytes, CM_UNCACHED_COUNT);
	reset_totals(row->other_count, CM_UNCACHED_COUNT);
	memset(row->scalar, 0, sizeof(row->scalar));
	cm_counters_end(row);
}

/* The families of a host row stand one after the other. */
static const uint32_t host_stats = (offsetof(struct cm_host_row, alloc_time) -
				    offsetof(struct cm_host_row, allocated)) /
				   sizeof(struct cm_stat4);

void cm_host_reset_peak(struct cm_host_row *row)
{
	cm_seq_begin(&row->seq);
	reset_peaks(&row->allocated, host_stats);
	row->alloc_time.max_ns = row->alloc_time.min_ns = 0;
	row->free_time.max_ns = row->free_time.min_ns = 0;
	cm_seq_end(&row->seq);
}

void cm_host_reset_accumulated(struct cm_host_row *row)
{
	cm_seq_begin(&row->seq);
	reset_totals(&row->allocated, host_stats);
	row->alloc_time.total_ns = row->alloc_time.count = 0;
	row->free_time.total_ns = row->free_time.count = 0;
	row->num_host_alloc = row->num_host_free = row->num_host_ooms = row->cache_hits = 0;
	cm_seq_end(&row->seq);
}
