/* SPDX-License-Identifier: MIT */
/*
 * The part of cm_cache_check that compares the counters with the sums over the rows.
 */
#include "allocator/check/check_walk.h"

#include "allocator/state/report.h"
#include "allocator/state/shards.h"
#include "stats/counters.h"

typedef unsigned long long ull;

static const char *stat_name(uint32_t stat)
{
	static const char *const name[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) returned,
#include "stats/counters.def"
	};

	return name[stat];
}

static bool check_family(struct cm_check_walk *walk, const char *name, const struct cm_stat4 *is,
			 int64_t current, bool reset)
{
	if (is->current != current)
		return cm_why_set(&walk->why, "%s is %lld, the rows make %lld", name,
				  (long long)is->current, (long long)current);
	if (is->peak < is->current)
		return cm_why_set(&walk->why, "%s is %lld above its peak", name,
				  (long long)(is->current - is->peak));
	if (!reset && is->current != is->allocated - is->freed)
		return cm_why_set(&walk->why, "%s is %lld, not %lld less %lld", name,
				  (long long)is->current, (long long)is->allocated,
				  (long long)is->freed);
	return true;
}

static bool check_stat(struct cm_check_walk *walk, const struct cm_device *device, uint32_t stat)
{
	const struct cm_check_device *sum = &walk->device[device->index];
	struct cm_stat4 is;
	uint32_t pool;

	for (pool = 0; pool < CM_POOL_COUNT; pool++) {
		is = cm_stat_read(device->row, (enum cm_pool)pool, stat);
		/* A segment that came from another shard was allocated there. */
		if (!check_family(walk, stat_name(stat), &is, sum->stat[pool][stat],
				  device->reset || cm_device_has_shards(device)))
			return false;
	}
	return true;
}

/* The sums over all shards, which are stopped. */
static bool check_sums(struct cm_check_walk *walk, struct cm_device *first)
{
	const struct cm_device_row *row = cm_shards_sum_locked(first);
	const uint64_t reserved = atomic_load(&first->reserved);
	struct cm_stat4 is;
	uint32_t pool, stat;

	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++) {
			is = cm_stat_read(row, (enum cm_pool)pool, stat);
			if (!check_family(walk, stat_name(stat), &is, is.current, first->reset))
				return false;
		}
	return reserved == (uint64_t)cm_stat_current(row, CM_STAT_RESERVED_BYTES) ||
	       cm_why_set(&walk->why, "device %u: %llu bytes are reserved by its own count",
			  first->index, (ull)reserved);
}

/* While memory is on its way to or from the driver, more is taken than counted. */
static bool check_taken(struct cm_check_walk *walk, const struct cm_device *device)
{
	const uint64_t taken = atomic_load(&device->taken_bytes);
	const struct cm_device *each = device;
	uint64_t counted = 0;
	uint32_t kind;

	if (!cm_device_is_first(device))
		return true;
	for (; each; each = cm_device_next_shard(each))
		counted += cm_device_reserved_locked(each);
	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++)
		counted += (uint64_t)device->row->other_bytes[kind].current;
	return taken >= counted ||
	       cm_why_set(&walk->why,
			  "device %u: %llu bytes are taken from the limit, %llu are "
			  "counted",
			  device->index, (ull)taken, (ull)counted);
}

bool cm_check_counters(struct cm_check_walk *walk, struct cm_device *device)
{
	const struct cm_check_device *sum = &walk->device[device->index];
	uint32_t stat;

	if (device->row->seq & 1)
		return cm_why_set(&walk->why, "device %u is in the middle of a change",
				  device->index);
	if (device->row->heaps != sum->heaps)
		return cm_why_set(&walk->why, "device %u has %u heaps, not %u", device->index,
				  sum->heaps, device->row->heaps);
	if (!check_taken(walk, device))
		return false;
	for (stat = 0; stat < CM_STAT_COUNT; stat++)
		if (!check_stat(walk, device, stat))
			return false;
	if (cm_device_is_first(device) && !check_sums(walk, device))
		return false;
	return check_family(walk, "oversize_allocations",
			    &device->row->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS],
			    sum->stat1[CM_STAT1_OVERSIZE_ALLOCATIONS], device->reset) &&
	       check_family(walk, "oversize_segments",
			    &device->row->stat1[CM_STAT1_OVERSIZE_SEGMENTS],
			    sum->stat1[CM_STAT1_OVERSIZE_SEGMENTS], device->reset);
}
