/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/snapshot/lines.h"
#include "tools/snapshot/stacks.h"

#define EARLY_TICKS 65536 /* see order_times */

static const char *const action_names[CM_ACTION_COUNT] = {
	[CM_ACTION_NONE] = "none",
	[CM_ACTION_ALLOC] = "alloc",
	[CM_ACTION_FREE_REQUESTED] = "free_requested",
	[CM_ACTION_FREE_COMPLETED] = "free_completed",
	[CM_ACTION_SEGMENT_ALLOC] = "segment_alloc",
	[CM_ACTION_SEGMENT_FREE] = "segment_free",
	[CM_ACTION_SEGMENT_MAP] = "segment_map",
	[CM_ACTION_SEGMENT_UNMAP] = "segment_unmap",
	[CM_ACTION_OOM] = "oom",
	[CM_ACTION_SNAPSHOT] = "snapshot",
	[CM_ACTION_OUTSIDE_ALLOC] = "outside_alloc",
	[CM_ACTION_OUTSIDE_FREE] = "outside_free",
	[CM_ACTION_OUTSIDE_OOM] = "outside_oom",
};

const char *cm_action_name(uint32_t action)
{
	return action < CM_ACTION_COUNT ? action_names[action] : "unknown";
}

const char *cm_uncached_name(uint32_t kind)
{
	static const char *const names[CM_UNCACHED_COUNT] = {
		[CM_UNCACHED_MANAGED] = "managed", [CM_UNCACHED_PITCH] = "pitched",
		[CM_UNCACHED_ARRAY] = "arrays",    [CM_UNCACHED_ASYNC] = "async",
		[CM_UNCACHED_VMM] = "mapped",      [CM_UNCACHED_FORWARDED] = "forwarded",
	};

	return kind < CM_UNCACHED_COUNT ? names[kind] : "unknown";
}

const char *cm_segment_pool_name(const struct cm_segment *segment)
{
	if (segment->flags & CM_SEGMENT_HOST)
		return "host";
	return segment->flags & CM_SEGMENT_SMALL ? "small" : "large";
}

/* The index of the device of a segment; snapshot->devices: none. */
static size_t device_of(const struct cm_snapshot *snapshot, const struct cm_segment *segment)
{
	size_t i;

	if (segment->flags & CM_SEGMENT_HOST)
		return snapshot->devices - 1;
	for (i = 0; i + 1 < snapshot->devices; i++)
		if (snapshot->device[i].index == segment->device)
			return i;
	return snapshot->devices;
}

static int build_devices(struct cm_snapshot *snapshot)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_DEVICE];
	const struct cm_device_row *row = table->rows;
	struct cm_snap_device *device;
	uint32_t i;

	snapshot->device = calloc((size_t)table->count + 1, sizeof(*device));
	if (!snapshot->device)
		return -ENOMEM;
	for (i = 0; i < table->count && i < CM_DEVICES_MAX; i++) {
		if (!(row[i].flags & CM_DEVICE_USED))
			continue;
		device = &snapshot->device[snapshot->devices++];
		device->index = i;
		/* Loops run up to the ordinal: bound it. */
		device->ordinal = row[i].ordinal >= 0 && row[i].ordinal < CM_DEVICES_MAX
					  ? row[i].ordinal
					  : (int32_t)i;
		device->row = &row[i];
	}
	device = &snapshot->device[snapshot->devices++];
	device->index = CM_DEVICE_NONE;
	device->ordinal = -1;
	return 0;
}

/* A segment and its device. */
struct place {
	const struct cm_segment *row;
	size_t device;
};

static int by_place(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->device != y->device)
		return x->device < y->device ? -1 : 1;
	if (x->row->addr != y->row->addr)
		return x->row->addr < y->row->addr ? -1 : 1;
	return x->row < y->row ? -1 : x->row > y->row;
}

static size_t find_places(const struct cm_snapshot *snapshot, struct place *places)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_SEGMENT];
	const struct cm_segment *row = table->rows;
	size_t count = 0;
	uint32_t i;

	for (i = 1; i < table->count; i++) {
		if (!(row[i].flags & CM_SEGMENT_USED))
			continue;
		places[count].row = &row[i];
		places[count].device = device_of(snapshot, &row[i]);
		if (places[count].device < snapshot->devices)
			count++;
	}
	qsort(places, count, sizeof(*places), by_place);
	return count;
}

static void count_block(struct cm_snap_segment *segment, const struct cm_block *block)
{
	if (block->state == CM_BLOCK_LIVE)
		segment->allocated += block->size;
	if (block->state == CM_BLOCK_LIVE || block->state == CM_BLOCK_PENDING) {
		segment->active += block->size;
		segment->requested += block->requested;
	}
}

static bool is_block_state(uint32_t state)
{
	return state == CM_BLOCK_LIVE || state == CM_BLOCK_PENDING || state == CM_BLOCK_FREE;
}

/*
 * Copies the blocks of a segment. Each must name this segment, so no row is copied twice and the
 * walk ends. False: they do not tile the segment.
 */
static bool add_blocks(struct cm_snapshot *snapshot, struct cm_snap_segment *segment)
{
	const struct cm_image_table *segments = &snapshot->image->table[CM_TABLE_SEGMENT];
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_BLOCK];
	const struct cm_block *row = table->rows;
	const uint32_t self = (uint32_t)(segment->row - (const struct cm_segment *)segments->rows);
	uint64_t addr = segment->row->addr, left = segment->row->size;
	uint32_t index;

	segment->first = snapshot->blocks;
	for (index = segment->row->first; index; index = row[index].next) {
		if (index >= table->count || row[index].segment != self ||
		    row[index].addr != addr || !row[index].size || row[index].size > left ||
		    !is_block_state(row[index].state))
			break;
		snapshot->block[snapshot->blocks] = row[index];
		count_block(segment, &row[index]);
		snapshot->blocks++;
		addr += row[index].size;
		left -= row[index].size;
	}
	segment->count = snapshot->blocks - segment->first;
	if (!left && !index)
		return true;
	snapshot->blocks = segment->first;
	return false;
}

static int build_segments(struct cm_snapshot *snapshot)
{
	const struct cm_image *image = snapshot->image;
	const size_t room = image->table[CM_TABLE_SEGMENT].count + (size_t)1;
	struct place *places = calloc(room, sizeof(*places));
	struct cm_snap_segment *segment;
	uint64_t end = 0;
	size_t count, i, of = SIZE_MAX;

	snapshot->segment = calloc(room, sizeof(*snapshot->segment));
	snapshot->block = malloc((image->table[CM_TABLE_BLOCK].count + (size_t)1) *
				 sizeof(*snapshot->block));
	if (!places || !snapshot->segment || !snapshot->block) {
		free(places);
		return -ENOMEM;
	}
	count = find_places(snapshot, places);
	for (i = 0; i < count; i++) {
		struct cm_snap_device *device = &snapshot->device[places[i].device];

		segment = &snapshot->segment[snapshot->segments];
		segment->row = places[i].row;
		if (places[i].device != of)
			end = 0;
		of = places[i].device;
		if (segment->row->addr < end ||
		    segment->row->size > UINT64_MAX - segment->row->addr ||
		    !add_blocks(snapshot, segment)) {
			memset(segment, 0, sizeof(*segment));
			snapshot->broken_segments++;
			continue;
		}
		end = segment->row->addr + segment->row->size;
		if (!device->segments++)
			device->first_segment = snapshot->segments;
		snapshot->segments++;
	}
	free(places);
	return 0;
}

/*
 * Puts the times of events in the order of their numbers. A processor may read its clock before it
 * acquires the lock under which the event is written, since nothing orders the two: up to some 200
 * ticks, in one of a thousand cases where the lock came from another thread. A larger step back
 * than EARLY_TICKS is damage, and is left as it is.
 */
static void order_times(struct cm_event *event, size_t events)
{
	size_t i;

	for (i = 1; i < events; i++)
		if (event[i].tick < event[i - 1].tick &&
		    event[i - 1].tick - event[i].tick < EARLY_TICKS)
			event[i].tick = event[i - 1].tick;
}

static bool is_outside(uint8_t action)
{
	return action == CM_ACTION_OUTSIDE_ALLOC || action == CM_ACTION_OUTSIDE_FREE ||
	       action == CM_ACTION_OUTSIDE_OOM;
}

/* Copies the complete events of one ring, oldest first. */
static void add_events(struct cm_snapshot *snapshot, struct cm_snap_device *device,
		       enum cm_table table, uint64_t first_row, uint64_t next, uint64_t cleared)
{
	const struct cm_image *image = snapshot->image;
	const uint32_t ring = image->header.table[table].ring;
	const struct cm_event *row = image->table[table].rows;
	const uint64_t entries = image->header.record.max_entries;
	uint64_t number, oldest;

	device->first_event = snapshot->events;
	if (!ring || first_row + ring > image->table[table].count)
		return;
	oldest = cm_event_first(next, cleared, ring, entries ? entries : UINT64_MAX);
	/* The counter is damaged: no process writes so many events. */
	if (next > UINT64_MAX / 2)
		return;
	for (number = oldest; number <= next; number++) {
		const struct cm_event *event = &row[first_row + ((number - 1) & (ring - 1))];

		if (event->number != number || event->action == CM_ACTION_NONE ||
		    event->action >= CM_ACTION_COUNT)
			continue; /* overwritten while it was being copied */
		if (!is_outside(event->action))
			snapshot->event[snapshot->events++] = *event;
	}
	device->events = snapshot->events - device->first_event;
	order_times(&snapshot->event[device->first_event], device->events);
	/* What --max-entries hides is not lost. */
	oldest = cm_event_first(next, cleared, ring, UINT64_MAX);
	device->lost = oldest > cleared + 1 ? oldest - cleared - 1 : 0;
}

/* Adds an event about memory outside the cache as one about blocks. */
static void add_outside(struct cm_snapshot *snapshot, const struct cm_event *event)
{
	struct cm_event *to = &snapshot->event[snapshot->events++];

	*to = *event;
	to->action = event->action == CM_ACTION_OUTSIDE_ALLOC ? CM_ACTION_ALLOC
		     : event->action == CM_ACTION_OUTSIDE_OOM ? CM_ACTION_OOM
							      : CM_ACTION_FREE_REQUESTED;
	if (event->action != CM_ACTION_OUTSIDE_FREE)
		return;
	snapshot->event[snapshot->events] = *to;
	snapshot->event[snapshot->events++].action = CM_ACTION_FREE_COMPLETED;
}

static bool has_outside(const struct cm_device_row *row)
{
	uint32_t kind;

	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++)
		if (row->other_bytes[kind].current > 0)
			return true;
	return false;
}

/* The events of a device about memory outside the cache. */
static void add_outside_events(struct cm_snapshot *snapshot, const struct cm_snap_device *device)
{
	const struct cm_image *image = snapshot->image;
	const uint32_t ring = image->header.table[CM_TABLE_EVENT].ring;
	const uint64_t first_row = (uint64_t)device->index * ring;
	const struct cm_event *row = image->table[CM_TABLE_EVENT].rows;
	const uint64_t next = device->row->event_next;
	const uint64_t entries = image->header.record.max_entries;
	struct cm_snap_device *to = &snapshot->outside[snapshot->outsides];
	uint64_t number;

	if (!ring || first_row + ring > image->table[CM_TABLE_EVENT].count || next > UINT64_MAX / 2)
		return;
	*to = (struct cm_snap_device){.index = device->index,
				      .ordinal = device->ordinal,
				      .row = device->row,
				      .first_event = snapshot->events,
				      .outside = true};
	for (number = cm_event_first(next, device->row->event_cleared, ring,
				     entries ? entries : UINT64_MAX);
	     number <= next; number++) {
		const struct cm_event *event = &row[first_row + ((number - 1) & (ring - 1))];

		if (event->number == number && is_outside(event->action))
			add_outside(snapshot, event);
	}
	to->events = snapshot->events - to->first_event;
	order_times(&snapshot->event[to->first_event], to->events);
	snapshot->outsides += to->events > 0 || has_outside(device->row);
}

static int build_events(struct cm_snapshot *snapshot)
{
	const struct cm_image *image = snapshot->image;
	const uint32_t ring = image->header.table[CM_TABLE_EVENT].ring;
	struct cm_snap_device *device;
	size_t i;

	/* A free outside the cache becomes two events. */
	snapshot->event = malloc((2 * (size_t)image->table[CM_TABLE_EVENT].count +
				  image->table[CM_TABLE_HOST_EVENT].count + 1) *
				 sizeof(*snapshot->event));
	snapshot->outside = calloc(snapshot->devices, sizeof(*snapshot->outside));
	if (!snapshot->event || !snapshot->outside)
		return -ENOMEM;
	for (i = 0; i + 1 < snapshot->devices; i++) {
		device = &snapshot->device[i];
		add_events(snapshot, device, CM_TABLE_EVENT, (uint64_t)device->index * ring,
			   device->row->event_next, device->row->event_cleared);
	}
	add_events(snapshot, &snapshot->device[i], CM_TABLE_HOST_EVENT, 0,
		   image->header.host.event_next, image->header.host.event_cleared);
	for (i = 0; i + 1 < snapshot->devices; i++)
		add_outside_events(snapshot, &snapshot->device[i]);
	return 0;
}

/* Numbers the contexts in the order of their rows, including destroyed ones, which may have
 * events. */
static int build_contexts(struct cm_snapshot *snapshot)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_HEAP];
	const struct cm_heap_row *row = table->rows;
	uint32_t of_device[CM_DEVICES_MAX] = {0}, i;

	snapshot->context = calloc((size_t)table->count + 1, sizeof(*snapshot->context));
	if (!snapshot->context)
		return -ENOMEM;
	for (i = 0; i < table->count; i++)
		if (row[i].context && row[i].device < CM_DEVICES_MAX)
			snapshot->context[i] = of_device[row[i].device]++;
	snapshot->contexts = table->count;
	return 0;
}

int cm_snapshot_create(const struct cm_image *image, const char *hide,
		       struct cm_snapshot **ret_snapshot)
{
	struct cm_snapshot *snapshot = calloc(1, sizeof(*snapshot));
	int err;

	if (!snapshot)
		return -ENOMEM;
	snapshot->image = image;
	err = build_devices(snapshot);
	if (!err)
		err = build_contexts(snapshot);
	if (!err)
		err = build_segments(snapshot);
	if (!err)
		err = build_events(snapshot);
	if (!err)
		err = cm_stacks_build(snapshot);
	if (!err)
		cm_layers_mark(snapshot, hide);
	if (err) {
		cm_snapshot_destroy(snapshot);
		return err;
	}
	*ret_snapshot = snapshot;
	return 0;
}

void cm_snapshot_destroy(struct cm_snapshot *snapshot)
{
	if (!snapshot)
		return;
	cm_intern_fini(&snapshot->texts);
	cm_intern_fini(&snapshot->keys);
	free(snapshot->device);
	free(snapshot->outside);
	free(snapshot->context);
	free(snapshot->segment);
	free(snapshot->block);
	free(snapshot->event);
	free(snapshot->frame);
	free(snapshot->frame_list);
	free(snapshot->stack);
	free(snapshot->stack_at);
	free(snapshot);
}

const struct cm_snap_stack *cm_snapshot_stack(const struct cm_snapshot *snapshot, uint32_t id)
{
	if (id >= snapshot->image->table[CM_TABLE_STACK].count)
		id = 0;
	return &snapshot->stack[id ? snapshot->stack_at[id] : 0];
}

const char *cm_snap_event_name(const struct cm_snap_device *device, const struct cm_event *event)
{
	if (!device->outside)
		return cm_action_name(event->action);
	switch (event->action) {
	case CM_ACTION_ALLOC:
		return cm_action_name(CM_ACTION_OUTSIDE_ALLOC);
	case CM_ACTION_OOM:
		return cm_action_name(CM_ACTION_OUTSIDE_OOM);
	case CM_ACTION_FREE_REQUESTED:
		return cm_action_name(CM_ACTION_OUTSIDE_FREE);
	default:
		return NULL;
	}
}

bool cm_snap_device_is_used(const struct cm_snapshot *snapshot, const struct cm_snap_device *device)
{
	size_t i;

	for (i = 0; i < device->events; i++)
		if (snapshot->event[device->first_event + i].action != CM_ACTION_SNAPSHOT)
			return true;
	return device->outside ? has_outside(device->row) : device->segments;
}
