/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/rings.h"

#include <string.h>

#define EARLY_TICKS 65536 /* see find_event */
#define ALL_LOST    UINT64_MAX

/*
 * Goes on to the next complete event, and puts its time in the order of the numbers. A processor
 * may read its clock before it acquires the lock under which the event is written, since nothing
 * orders the two: up to some 200 ticks, in one of a thousand cases where the lock came from another
 * thread. A larger step back than EARLY_TICKS is damage, and is left as it is.
 */
static void find_event(struct cm_ring_place *ring)
{
	const struct cm_event *event;

	for (; ring->number <= ring->last; ring->number++) {
		event = &ring->row[(ring->number - 1) & ring->mask];
		if (event->number != ring->number || event->action == CM_ACTION_NONE ||
		    event->action >= CM_ACTION_COUNT)
			continue; /* overwritten while it was being copied */
		if (event->tick > ring->tick || ring->tick - event->tick >= EARLY_TICKS)
			ring->tick = event->tick;
		return;
	}
}

static void skip_event(struct cm_ring_place *ring)
{
	ring->number++;
	find_event(ring);
}

/* Adds the ring that starts at a row of the table. Returns the time from which on it is complete,
 * 0: from the start; ALL_LOST: a busy process has overwritten it while it was copied. */
static uint64_t add_ring(struct cm_rings *rings, const struct cm_image *image, enum cm_table table,
			 uint32_t place, uint64_t next, uint64_t cleared)
{
	const uint32_t rows = image->header.table[table].ring;
	const uint64_t first_row = (uint64_t)place * rows;
	const uint64_t entries = image->header.record.max_entries;
	struct cm_ring_place *ring = &rings->ring[rings->count];
	uint64_t lost, first;

	/* A counter above the half is damaged: no process writes so many events. */
	if (!rows || first_row + rows > image->table[table].count || next > UINT64_MAX / 2)
		return 0;
	first = cm_event_first(next, cleared, rows, entries ? entries : UINT64_MAX);
	*ring = (struct cm_ring_place){.row = (const struct cm_event *)image->table[table].rows +
					      first_row,
				       .mask = rows - 1,
				       .number = first,
				       .last = next};
	find_event(ring);
	rings->count++;
	rings->number += next;
	/* What --max-entries hides is not lost; what was overwritten during the copy is. */
	lost = cm_event_first(next, cleared, rows, UINT64_MAX) - 1 + ring->number - first;
	rings->lost += lost > cleared ? lost - cleared : 0;
	if (ring->number > next)
		return next > cleared ? ALL_LOST : 0;
	return ring->number - 1 > cleared ? ring->tick : 0;
}

static uint64_t drop_before(struct cm_rings *rings, uint64_t tick)
{
	uint64_t dropped = 0;
	uint32_t i;

	for (i = 0; i < rings->count; i++)
		for (; rings->ring[i].number <= rings->ring[i].last && rings->ring[i].tick < tick;
		     skip_event(&rings->ring[i]))
			dropped++;
	return dropped;
}

static uint64_t count_events(const struct cm_rings *rings)
{
	struct cm_ring_place ring;
	uint64_t count = 0;
	uint32_t i;

	for (i = 0; i < rings->count; i++)
		for (ring = rings->ring[i]; ring.number <= ring.last; skip_event(&ring))
			count++;
	return count;
}

/* Lets several rings look like one: they begin together, and show as many events as one may. */
static void join(struct cm_rings *rings, uint64_t complete_from, uint64_t entries)
{
	const uint64_t dropped = drop_before(rings, complete_from);
	uint64_t left = count_events(rings);
	struct cm_event event;

	if (rings->lost)
		rings->lost += dropped;
	rings->number -= left;
	for (; entries && left > entries; left--)
		(void)cm_rings_next(rings, &event);
}

void cm_rings_open(const struct cm_image *image, const struct cm_shard_map *map, uint32_t device,
		   struct cm_rings *ret_rings)
{
	const struct cm_image_table *table = &image->table[CM_TABLE_DEVICE];
	const struct cm_device_row *row = table->rows;
	const struct cm_host_row *host = &image->header.host;
	uint64_t complete_from = 0, from;
	uint32_t i;

	memset(ret_rings, 0, sizeof(*ret_rings));
	if (device == CM_DEVICE_NONE)
		(void)add_ring(ret_rings, image, CM_TABLE_HOST_EVENT, 0, host->event_next,
			       host->event_cleared);
	for (i = 0; i < table->count && i < CM_DEVICES_MAX; i++) {
		if (device >= CM_DEVICES_MAX || cm_shard_map_device(map, i) != device)
			continue;
		from = add_ring(ret_rings, image, CM_TABLE_EVENT, i, row[i].event_next,
				row[i].event_cleared);
		complete_from = from > complete_from ? from : complete_from;
	}
	if (ret_rings->count > 1)
		join(ret_rings, complete_from, image->header.record.max_entries);
}

bool cm_rings_next(struct cm_rings *rings, struct cm_event *ret_event)
{
	struct cm_ring_place *ring = NULL;
	uint32_t i;

	for (i = 0; i < rings->count; i++)
		if (rings->ring[i].number <= rings->ring[i].last &&
		    (!ring || rings->ring[i].tick < ring->tick))
			ring = &rings->ring[i];
	if (!ring)
		return false;
	*ret_event = ring->row[(ring->number - 1) & ring->mask];
	ret_event->tick = ring->tick;
	rings->own_number = ring->number;
	if (rings->count > 1)
		ret_event->number = ++rings->number;
	skip_event(ring);
	return true;
}
