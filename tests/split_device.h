/* SPDX-License-Identifier: MIT */
/*
 * Gives the device of row 0 a second shard, in a region that nobody writes: every second segment
 * with its events and counters moves to a new row, and half of what counts requests. Its heap there
 * is a new one of the same context, of which all these segments are. The sums, and all that a tool
 * prints, stay as they were.
 */
#ifndef CM_TESTS_SPLIT_DEVICE_H
#define CM_TESTS_SPLIT_DEVICE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/region.h"

struct split {
	struct cm_region *region;
	uint32_t to;   /* the new row */
	uint32_t heap; /* the new one, of the context of this: */
	uint32_t main;
	struct cm_device_row *row[2];
};

static inline void split_move(struct split *split, enum cm_pool pool, enum cm_stat stat, int64_t n)
{
	struct cm_stat_pool *from = &split->row[0]->stat[pool], *to = &split->row[1]->stat[pool];

	/* The second shard's part of each peak is what it has. */
	from->current[stat] -= n;
	from->peak[stat] -= n;
	to->current[stat] += n;
	to->peak[stat] += n;
	split->row[0]->stat[CM_POOL_ALL].peak[stat] -= n;
	split->row[1]->stat[CM_POOL_ALL].peak[stat] += n;
}

static inline void split_move_segment(struct split *split, struct cm_segment *segment)
{
	const enum cm_pool pool = segment->flags & CM_SEGMENT_SMALL ? CM_POOL_SMALL : CM_POOL_LARGE;
	const struct cm_block *block;
	uint32_t i;

	segment->device = split->to;
	split->main = segment->heap;
	segment->heap = split->heap;
	split_move(split, pool, CM_STAT_SEGMENT, 1);
	split_move(split, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	for (i = segment->first; i; i = block->next) {
		block = cm_region_row(split->region, CM_TABLE_BLOCK, i);
		if (block->state == CM_BLOCK_FREE)
			continue;
		split_move(split, pool, CM_STAT_ACTIVE, 1);
		split_move(split, pool, CM_STAT_ACTIVE_BYTES, (int64_t)block->size);
		split_move(split, pool, CM_STAT_REQUESTED_BYTES, (int64_t)block->requested);
		if (block->state != CM_BLOCK_LIVE)
			continue;
		split_move(split, pool, CM_STAT_ALLOCATION, 1);
		split_move(split, pool, CM_STAT_ALLOCATED_BYTES, (int64_t)block->size);
	}
}

static inline void split_halve(int64_t *from, int64_t *to, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes / sizeof(*to); i++) {
		to[i] += from[i] / 2;
		from[i] -= from[i] / 2;
	}
}

#define SPLIT_HALVE(split, field)                                                     \
	split_halve((void *)&(split)->row[0]->field, (void *)&(split)->row[1]->field, \
		    sizeof((split)->row[0]->field))

static inline void split_counters(struct split *split)
{
	SPLIT_HALVE(split, stat[CM_POOL_SMALL].freed);
	SPLIT_HALVE(split, stat[CM_POOL_LARGE].freed);
	SPLIT_HALVE(split, stat1);
	SPLIT_HALVE(split, scalar);
	SPLIT_HALVE(split, other_bytes);
	SPLIT_HALVE(split, other_count);
}

/* Whose address lies in a segment of the new row; of other events every second. */
static inline bool split_takes(const struct split *split, const struct cm_event *event)
{
	const uint32_t segments = split->region->header->table[CM_TABLE_SEGMENT].rows;
	const struct cm_segment *segment;
	uint32_t i;

	for (i = 1; i < segments; i++) {
		segment = cm_region_row(split->region, CM_TABLE_SEGMENT, i);
		if (event->addr >= segment->addr && event->addr - segment->addr < segment->size)
			return segment->device == split->to;
	}
	return event->number % 2;
}

/* Only rings from which nothing was lost are divided. */
static inline void split_ring(struct split *split)
{
	const uint32_t ring = split->region->header->table[CM_TABLE_EVENT].ring;
	struct cm_event *from = cm_region_row(split->region, CM_TABLE_EVENT, 0);
	struct cm_event *to = cm_region_row(split->region, CM_TABLE_EVENT, split->to * ring);
	const uint64_t events = split->row[0]->event_next;
	uint64_t kept = 0, taken = 0, i;

	if (events > ring || split->row[0]->event_cleared)
		return;
	for (i = 0; i < events; i++) {
		if (split_takes(split, &from[i])) {
			to[taken] = from[i];
			if (to[taken].heap == split->main)
				to[taken].heap = (uint16_t)split->heap;
			to[taken].number = taken + 1;
			taken++;
		} else {
			from[kept] = from[i];
			from[kept].number = kept + 1;
			kept++;
		}
	}
	memset(&from[kept], 0, (events - kept) * sizeof(*from));
	split->row[0]->event_next = kept;
	split->row[1]->event_next = taken;
}

static inline bool split_heap(struct split *split)
{
	struct cm_heap_row *heap;

	if (cm_region_commit(split->region, CM_TABLE_HEAP, split->heap + 1))
		return false;
	heap = cm_region_row(split->region, CM_TABLE_HEAP, split->heap);
	*heap = *(struct cm_heap_row *)cm_region_row(split->region, CM_TABLE_HEAP, split->main);
	heap->device = split->to;
	return true;
}

/* The new rows are behind those that there are. False: no space. */
static inline bool split_device(struct cm_region *region)
{
	const struct cm_table_row *table = region->header->table;
	struct split split = {.region = region,
			      .to = table[CM_TABLE_DEVICE].rows,
			      .heap = table[CM_TABLE_HEAP].rows};
	const uint32_t ring = table[CM_TABLE_EVENT].ring;
	struct cm_device_row *row[2];
	struct cm_segment *segment;
	uint32_t i, of_device = 0;

	if (cm_region_commit(region, CM_TABLE_DEVICE, split.to + 1) ||
	    cm_region_commit(region, CM_TABLE_EVENT, (split.to + 1) * ring))
		return false;
	row[0] = split.row[0] = cm_region_row(region, CM_TABLE_DEVICE, 0);
	row[1] = split.row[1] = cm_region_row(region, CM_TABLE_DEVICE, split.to);
	row[1]->flags = row[0]->flags;
	row[1]->ordinal = row[0]->ordinal;
	row[1]->heaps = row[0]->heaps;
	row[1]->max_split_size = row[0]->max_split_size;
	row[1]->first_shard = 1;
	memcpy(row[1]->uuid, row[0]->uuid, sizeof(row[0]->uuid));
	memcpy(row[1]->name, row[0]->name, sizeof(row[0]->name));
	memcpy(row[1]->pci, row[0]->pci, sizeof(row[0]->pci));
	for (i = 1; i < table[CM_TABLE_SEGMENT].rows; i++) {
		segment = cm_region_row(region, CM_TABLE_SEGMENT, i);
		if (segment->flags & CM_SEGMENT_USED && !(segment->flags & CM_SEGMENT_HOST) &&
		    !segment->device && of_device++ % 2)
			split_move_segment(&split, segment);
	}
	split_counters(&split);
	split_ring(&split);
	return !split.heap || split_heap(&split);
}

#endif
