/* SPDX-License-Identifier: MIT */
#include "stats/memory_stats.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "stats/counters.h"

#define KEY_BYTES 96

/* What a name of the dictionary stands for, and where its value lies. */
enum entry_kind { ENTRY_STAT, ENTRY_STAT1, ENTRY_SCALAR, ENTRY_MAX_SPLIT_SIZE };

struct entry {
	const char *name;
	enum entry_kind kind;
	uint32_t index;
};

/* A family whose documented name is its returned one has "" in its second row: left out. */
static const struct entry entries[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) \
	{returned, ENTRY_STAT, CM_STAT_##ENUM}, {documented, ENTRY_STAT, CM_STAT_##ENUM},
#define CM_STAT1(ENUM, name, unit, help) {name, ENTRY_STAT1, CM_STAT1_##ENUM},
#define CM_SCALAR(field, pytorch, help)  {#field, ENTRY_SCALAR, CM_SCALAR_##field},
#define CM_SCALAR_RENAMED(old, field)    {#old, ENTRY_SCALAR, CM_SCALAR_##field},
#include "stats/counters.def"
	{"max_split_size", ENTRY_MAX_SPLIT_SIZE, 0},
};

#define ENTRIES (sizeof(entries) / sizeof(entries[0]))

/* '.' sorts before every letter and '_', so names in order give keys in order. */
static size_t sort_entries(const struct entry *sorted[ENTRIES])
{
	size_t n = 0, i, at;

	for (i = 0; i < ENTRIES; i++) {
		if (!entries[i].name[0])
			continue;
		for (at = n; at && strcmp(sorted[at - 1]->name, entries[i].name) > 0; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = &entries[i];
		n++;
	}
	return n;
}

static void put_figure(const char *name, const char *part, int64_t value, cm_memory_stats_fn fn,
		       void *data)
{
	char key[KEY_BYTES];

	(void)snprintf(key, sizeof(key), "%s.%s", name, part);
	fn(data, key, value);
}

static void each_value(const char *name, const struct cm_stat4 *stat, cm_memory_stats_fn fn,
		       void *data)
{
	put_figure(name, "allocated", stat->allocated, fn, data);
	put_figure(name, "current", stat->current, fn, data);
	put_figure(name, "freed", stat->freed, fn, data);
	put_figure(name, "peak", stat->peak, fn, data);
}

static void each_pool(const char *name, const struct cm_device_row *row, uint32_t stat,
		      cm_memory_stats_fn fn, void *data)
{
	static const struct {
		const char *name;
		enum cm_pool pool;
	} pools[] = {
		{"all", CM_POOL_ALL},
		{"large_pool", CM_POOL_LARGE},
		{"small_pool", CM_POOL_SMALL},
	};
	char key[KEY_BYTES];
	size_t i;

	for (i = 0; i < sizeof(pools) / sizeof(pools[0]); i++) {
		const struct cm_stat4 values = cm_stat_read(row, pools[i].pool, stat);

		(void)snprintf(key, sizeof(key), "%s.%s", name, pools[i].name);
		each_value(key, &values, fn, data);
	}
}

void cm_memory_stats_each(const struct cm_device_row *row, cm_memory_stats_fn fn, void *data)
{
	const struct entry *sorted[ENTRIES];
	const size_t n = sort_entries(sorted);
	size_t i;

	for (i = 0; i < n; i++) {
		const struct entry *entry = sorted[i];

		switch (entry->kind) {
		case ENTRY_STAT:
			each_pool(entry->name, row, entry->index, fn, data);
			break;
		case ENTRY_STAT1:
			each_value(entry->name, &row->stat1[entry->index], fn, data);
			break;
		case ENTRY_SCALAR:
			fn(data, entry->name, row->scalar[entry->index]);
			break;
		case ENTRY_MAX_SPLIT_SIZE:
			fn(data, entry->name, row->max_split_size);
			break;
		}
	}
}

static void each_time(const char *name, const struct cm_duration *time, cm_memory_stats_fn fn,
		      void *data)
{
	const uint64_t us = 1000;

	put_figure(name, "avg", time->count ? (int64_t)(time->total_ns / time->count / us) : 0, fn,
		   data);
	put_figure(name, "count", (int64_t)time->count, fn, data);
	put_figure(name, "max", (int64_t)(time->max_ns / us), fn, data);
	put_figure(name, "min", (int64_t)(time->min_ns / us), fn, data);
	put_figure(name, "total", (int64_t)(time->total_ns / us), fn, data);
}

void cm_host_memory_stats_each(const struct cm_host_row *row, cm_memory_stats_fn fn, void *data)
{
	each_value("active", &row->active, fn, data);
	each_value("active_bytes", &row->active_bytes, fn, data);
	each_value("active_requests", &row->active, fn, data);
	each_value("allocated", &row->allocated, fn, data);
	each_value("allocated_bytes", &row->allocated_bytes, fn, data);
	each_value("allocation", &row->allocated, fn, data);
	each_value("allocations", &row->segment, fn, data);
	fn(data, "cache_hits", (int64_t)row->cache_hits);
	each_time("host_alloc_time", &row->alloc_time, fn, data);
	each_time("host_free_time", &row->free_time, fn, data);
	fn(data, "num_host_alloc", (int64_t)row->num_host_alloc);
	fn(data, "num_host_free", (int64_t)row->num_host_free);
	fn(data, "num_host_ooms", (int64_t)row->num_host_ooms);
	each_value("registered", &row->registered, fn, data);
	each_value("registered_bytes", &row->registered_bytes, fn, data);
	each_value("reserved_bytes", &row->reserved_bytes, fn, data);
	each_value("segment", &row->segment, fn, data);
}
