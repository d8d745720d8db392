/* SPDX-License-Identifier: MIT */
#include "tests/unit/ring_check.h"

#include "tools/snapshot/completions.h"

#define ROWS_MAX 256 /* a larger ring is not looked at */
#define NONE     SIZE_MAX
#define OWN      UINT32_MAX /* in place of a thread: the ring has this completion itself */

struct ring {
	struct cm_event event[2 * ROWS_MAX];
	uint64_t number[ROWS_MAX];
	size_t events;
	bool gap;
};

static bool read_ring(const struct cm_region *region, uint32_t device,
		      const struct cm_device_row *row, struct ring *ring)
{
	const uint32_t rows = region->header->table[CM_TABLE_EVENT].ring;
	uint64_t number = cm_event_first(row->event_next, row->event_cleared, rows, UINT64_MAX);
	struct cm_event *event;

	for (ring->events = 0; number <= row->event_next; number++) {
		ring->number[ring->events] = number;
		event = &ring->event[ring->events++];
		*event = *(struct cm_event *)cm_region_row(
			region, CM_TABLE_EVENT, device * rows + (uint32_t)(number - 1) % rows);
		if (event->action == CM_ACTION_FREE_COMPLETED)
			event->thread = OWN;
	}
	return !cm_completions_derive(ring->event, ring->number, &ring->events);
}

/* The last event of a block at the address before the event `end`, or NONE. */
static size_t last_of(const struct ring *ring, uint64_t addr, size_t end)
{
	while (end-- > 0)
		if (ring->event[end].addr == addr && cm_event_is_of_block(&ring->event[end]))
			return end;
	return NONE;
}

static const char *check_order(const struct ring *ring)
{
	size_t i, before;

	for (i = 0; i < ring->events; i++) {
		if (!cm_event_is_of_block(&ring->event[i]))
			continue;
		before = last_of(ring, ring->event[i].addr, i);
		if (before == NONE)
			continue;
		if (ring->event[i].action == CM_ACTION_FREE_COMPLETED &&
		    !(ring->gap && ring->event[i].thread == OWN) &&
		    ring->event[before].action != CM_ACTION_FREE_REQUESTED)
			return "a completion without a free";
		if (ring->event[i].action == CM_ACTION_ALLOC &&
		    ring->event[before].action != CM_ACTION_FREE_COMPLETED && !ring->gap)
			return "an allocation before a completion";
		if (ring->event[i].number == ring->event[before].number && !ring->gap)
			return "a completion that had to be made up";
	}
	return NULL;
}

static bool is_pending(const struct cm_region *region, uint32_t device, uint64_t addr)
{
	const uint32_t rows = region->header->table[CM_TABLE_BLOCK].rows;
	const struct cm_segment *segment;
	const struct cm_block *block;
	uint32_t i;

	for (i = 1; i < rows; i++) {
		block = cm_region_row(region, CM_TABLE_BLOCK, i);
		if (block->addr != addr || block->state != CM_BLOCK_PENDING)
			continue;
		segment = cm_region_row(region, CM_TABLE_SEGMENT, block->segment);
		if (segment->device == device)
			return true;
	}
	return false;
}

/* The last event at each address says what its block is now. */
static const char *check_now(const struct ring *ring, const struct cm_region *region,
			     uint32_t device)
{
	const struct cm_event *event;
	bool pending;
	size_t i;

	for (i = 0; i < ring->events; i++) {
		event = &ring->event[i];
		if (event->action != CM_ACTION_FREE_REQUESTED &&
		    event->action != CM_ACTION_FREE_COMPLETED)
			continue;
		if (last_of(ring, event->addr, ring->events) != i)
			continue;
		pending = is_pending(region, device, event->addr);
		if (pending && event->action == CM_ACTION_FREE_COMPLETED)
			return "a completion that is early";
		if (!pending && event->action == CM_ACTION_FREE_REQUESTED)
			return "a completion that is missing";
	}
	return NULL;
}

/* With gaps: a block may have come and gone in one. Its row has the number of its free. */
static const char *check_pending(const struct ring *ring, const struct cm_region *region,
				 uint32_t device)
{
	const uint32_t rows = region->header->table[CM_TABLE_BLOCK].rows;
	const struct cm_segment *segment;
	const struct cm_block *block;
	uint32_t n;
	size_t i, last;

	for (n = 1; n < rows; n++) {
		block = cm_region_row(region, CM_TABLE_BLOCK, n);
		if (block->state != CM_BLOCK_PENDING)
			continue;
		segment = cm_region_row(region, CM_TABLE_SEGMENT, block->segment);
		last = last_of(ring, block->addr, ring->events);
		if (segment->device != device || last == NONE)
			continue;
		for (i = 0; i < ring->events; i++)
			if (ring->event[i].number == block->freed &&
			    ring->event[i].action == CM_ACTION_FREE_REQUESTED &&
			    ring->event[i].addr == block->addr && last != i)
				return "a completion that is early, in a ring with gaps";
	}
	return NULL;
}

const char *ring_check_complaint(const struct cm_region *region, bool gap)
{
	const uint32_t rows = region->header->table[CM_TABLE_EVENT].ring;
	const uint32_t devices = region->header->table[CM_TABLE_DEVICE].rows;
	const char *complaint = NULL;
	struct ring ring = {.gap = gap};
	uint32_t i;

	for (i = 0; i < devices && rows <= ROWS_MAX && !complaint; i++) {
		const struct cm_device_row *row = cm_region_row(region, CM_TABLE_DEVICE, i);

		if (!(row->flags & CM_DEVICE_USED) || !row->event_next)
			continue;
		if (!read_ring(region, i, row, &ring))
			return "no memory";
		complaint = check_order(&ring);
		if (!complaint)
			complaint = gap ? check_pending(&ring, region, i)
					: check_now(&ring, region, i);
	}
	return complaint;
}
