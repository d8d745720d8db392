/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tools/snapshot/completions.h"
#include "tools/snapshot/lines.h"
#include "tools/snapshot/rings.h"
#include "tools/snapshot/stacks.h"

/* More heaps than a process has: a damaged region has bounded work, too. */
#define MAIN_HEAPS 4096

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
	[CM_ACTION_FREES_COMPLETED] = "frees_completed",
};

const char *cm_action_name(uint32_t action)
{
	return action < CM_ACTION_COUNT ? action_names[action] : "unknown";
}

const char *cm_block_state_name(uint32_t state)
{
	if (state == CM_BLOCK_LIVE)
		return "active_allocated";
	return state == CM_BLOCK_PENDING ? "active_pending_free" : "inactive";
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
	const uint32_t index = cm_shard_map_device(&snapshot->shards, segment->device);
	size_t i;

	if (segment->flags & CM_SEGMENT_HOST)
		return snapshot->devices - 1;
	for (i = 0; i + 1 < snapshot->devices; i++)
		if (snapshot->device[i].index == index)
			return i;
	return snapshot->devices;
}

static void add_device(struct cm_snapshot *snapshot, uint32_t index,
		       const struct cm_device_row *row)
{
	struct cm_snap_device *device = &snapshot->device[snapshot->devices];
	struct cm_device_row *sum = &snapshot->sum[snapshot->devices++];

	*sum = *row;
	sum->name[sizeof(sum->name) - 1] = '\0';
	sum->pci[sizeof(sum->pci) - 1] = '\0';
	device->index = index;
	/* Loops run up to the ordinal: bound it. */
	device->ordinal = row->ordinal >= 0 && row->ordinal < CM_DEVICES_MAX ? row->ordinal
									     : (int32_t)index;
	device->row = sum;
}

static int build_devices(struct cm_snapshot *snapshot)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_DEVICE];
	const struct cm_device_row *row = table->rows;
	struct cm_snap_device *device;
	uint32_t rows = table->count < CM_DEVICES_MAX ? table->count : CM_DEVICES_MAX, i, first;
	size_t at[CM_DEVICES_MAX] = {0};

	memset(snapshot->shards.first, CM_DEVICES_MAX, sizeof(snapshot->shards.first));
	snapshot->device = calloc((size_t)rows + 1, sizeof(*snapshot->device));
	snapshot->sum = calloc((size_t)rows + 1, sizeof(*snapshot->sum));
	if (!snapshot->device || !snapshot->sum)
		return -ENOMEM;
	for (i = 0; i < rows; i++) {
		cm_shard_map_add(&snapshot->shards, i, &row[i]);
		first = cm_shard_map_device(&snapshot->shards, i);
		if (first == i) {
			at[i] = snapshot->devices;
			add_device(snapshot, i, &row[i]);
		} else if (first < CM_DEVICES_MAX) {
			cm_device_row_add(&snapshot->sum[at[first]], &row[i]);
		}
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

static bool is_outside(uint8_t action)
{
	return action == CM_ACTION_OUTSIDE_ALLOC || action == CM_ACTION_OUTSIDE_FREE ||
	       action == CM_ACTION_OUTSIDE_OOM;
}

/* Copies the events of a device that are not about memory outside the cache. `numbers` is room for
 * their numbers. -ENOMEM. */
static int add_events(struct cm_snapshot *snapshot, struct cm_snap_device *device,
		      uint64_t *numbers)
{
	struct cm_event *event = &snapshot->event[snapshot->events];
	struct cm_rings rings;
	int err;

	cm_rings_open(snapshot->image, &snapshot->shards, device->index, &rings);
	device->lost = rings.lost;
	device->first_event = snapshot->events;
	while (cm_rings_next(&rings, &event[device->events])) {
		numbers[device->events] = rings.own_number;
		device->events += !is_outside(event[device->events].action);
	}
	err = cm_completions_derive(event, numbers, &device->events);
	snapshot->events += device->events;
	return err;
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
	struct cm_snap_device *to = &snapshot->outside[snapshot->outsides];
	struct cm_rings rings;
	struct cm_event event;

	*to = (struct cm_snap_device){.index = device->index,
				      .ordinal = device->ordinal,
				      .row = device->row,
				      .first_event = snapshot->events,
				      .outside = true};
	cm_rings_open(snapshot->image, &snapshot->shards, device->index, &rings);
	while (cm_rings_next(&rings, &event))
		if (is_outside(event.action))
			add_outside(snapshot, &event);
	to->events = snapshot->events - to->first_event;
	snapshot->outsides += to->events > 0 || has_outside(device->row);
}

static int build_events(struct cm_snapshot *snapshot)
{
	const struct cm_image *image = snapshot->image;
	const size_t rows = (size_t)image->table[CM_TABLE_EVENT].count +
			    image->table[CM_TABLE_HOST_EVENT].count;
	uint64_t *numbers = malloc((rows + 1) * sizeof(*numbers));
	int err = numbers ? 0 : -ENOMEM;
	size_t i;

	/* A free becomes two events. One more is room to read into. */
	snapshot->event = malloc((2 * rows + 1) * sizeof(*snapshot->event));
	snapshot->outside = calloc(snapshot->devices, sizeof(*snapshot->outside));
	if (!snapshot->event || !snapshot->outside)
		err = -ENOMEM;
	for (i = 0; i < snapshot->devices && !err; i++)
		err = add_events(snapshot, &snapshot->device[i], numbers);
	for (i = 0; i + 1 < snapshot->devices && !err; i++)
		add_outside_events(snapshot, &snapshot->device[i]);
	free(numbers);
	return err;
}

/* The heap of the same context in the first shard of the device; NULL: there is none. */
static const struct cm_heap_row *find_main_heap(const struct cm_snapshot *snapshot,
						const struct cm_heap_row *heap)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_HEAP];
	const struct cm_heap_row *row = table->rows;
	const uint32_t device = cm_shard_map_device(&snapshot->shards, heap->device);
	uint32_t i;

	for (i = 0; i < table->count && i < MAIN_HEAPS; i++)
		if (row[i].device == device && row[i].context == heap->context &&
		    row[i].context_id == heap->context_id &&
		    !((row[i].flags ^ heap->flags) & CM_HEAP_USED))
			return &row[i];
	return NULL;
}

/* Numbers the contexts in the order of their rows, including destroyed ones, which may have
 * events. The heaps of a context in later shards have its number. */
static int build_contexts(struct cm_snapshot *snapshot)
{
	const struct cm_image_table *table = &snapshot->image->table[CM_TABLE_HEAP];
	const struct cm_heap_row *row = table->rows, *main;
	uint32_t of_device[CM_DEVICES_MAX] = {0}, i, device;

	snapshot->context = calloc((size_t)table->count + 1, sizeof(*snapshot->context));
	if (!snapshot->context)
		return -ENOMEM;
	for (i = 0; i < table->count; i++)
		if (row[i].context && row[i].device < CM_DEVICES_MAX)
			snapshot->context[i] = of_device[row[i].device]++;
	for (i = 0; i < table->count; i++) {
		device = cm_shard_map_device(&snapshot->shards, row[i].device);
		if (!row[i].context || device == CM_DEVICES_MAX || row[i].device == device)
			continue;
		main = find_main_heap(snapshot, &row[i]);
		snapshot->context[i] = main ? snapshot->context[main - row] : of_device[device]++;
	}
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
	free(snapshot->sum);
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
