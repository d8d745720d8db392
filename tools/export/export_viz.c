/* SPDX-License-Identifier: MIT */
/*
 * The structure that torch.cuda.memory._snapshot() returns, with its keys in its order. PyTorch's
 * viewer requires that the blocks of a segment tile it; that every event has a size; that an event
 * of an out-of-memory has device_free instead of addr; that frames have name and filename; and that
 * there is one trace per device index.
 *
 * Memory belongs to a context here, not to a stream: the first context of a device is shown as
 * stream 0, the next as 1.
 */
#include <errno.h>
#include <stdlib.h>

#include "stats/config.h"
#include "stats/text.h"
#include "tools/export/export.h"
#include "tools/output/json.h"
#include "tools/snapshot/ranges.h"

#define NS_PER_US  1000
#define TEXT_BYTES 4096

static void put_frame(struct cm_json *json, const struct cm_snapshot *snapshot, uint32_t number)
{
	const struct cm_snap_frame *frame = &snapshot->frame[number];

	if (cm_json_refer(json, NULL, CM_PICKLE_FRAME, number))
		return;
	cm_json_object(json, NULL);
	cm_json_text(json, "name", frame->function);
	cm_json_text(json, "filename", frame->file);
	cm_json_number(json, "line", frame->line);
	cm_json_end(json);
}

static void put_frames(struct cm_json *json, const struct cm_snapshot *snapshot, uint32_t id)
{
	const struct cm_snap_stack *stack = cm_snapshot_stack(snapshot, id);
	uint32_t i;

	/* The empty stack is not shared: an empty list is as short as a reference. */
	if (stack->count &&
	    cm_json_refer(json, "frames", CM_PICKLE_STACK, (uint32_t)(stack - snapshot->stack)))
		return;
	cm_json_array(json, "frames");
	for (i = 0; i < stack->count; i++)
		put_frame(json, snapshot, snapshot->frame_list[stack->first + i]);
	cm_json_end(json);
}

static void put_block(struct cm_json *json, const struct cm_snapshot *snapshot,
		      const struct cm_block *block)
{
	const bool active = block->state != CM_BLOCK_FREE;

	cm_json_object(json, NULL);
	cm_json_unsigned(json, "address", block->addr);
	cm_json_unsigned(json, "size", block->size);
	/* A free block has no request, but the viewer needs the key. */
	cm_json_unsigned(json, "requested_size", active ? block->requested : 0);
	cm_json_text(json, "state", cm_block_state_name(block->state));
	put_frames(json, snapshot, cm_block_stack(block));
	cm_json_end(json);
}

static void put_segment(struct cm_json *json, const struct cm_snapshot *snapshot,
			const struct cm_snap_device *device, const struct cm_snap_segment *segment)
{
	size_t i;

	cm_json_object(json, NULL);
	cm_json_number(json, "device", device->ordinal);
	cm_json_unsigned(json, "address", segment->row->addr);
	cm_json_unsigned(json, "total_size", segment->row->size);
	cm_json_unsigned(json, "allocated_size", segment->allocated);
	cm_json_unsigned(json, "active_size", segment->active);
	cm_json_unsigned(json, "requested_size", segment->requested);
	cm_json_unsigned(json, "stream", cm_snapshot_context(snapshot, segment->row->heap));
	cm_json_text(json, "segment_type", cm_segment_pool_name(segment->row));
	cm_json_pair(json, "segment_pool_id", 0, 0);
	cm_json_bool(json, "is_expandable", segment->row->flags & CM_SEGMENT_PAGED);
	put_frames(json, snapshot, segment->row->stack);
	cm_json_array(json, "blocks");
	for (i = 0; i < segment->count; i++)
		put_block(json, snapshot, &snapshot->block[segment->first + i]);
	cm_json_end(json);
	cm_json_end(json);
}

static void put_event(struct cm_json *json, const struct cm_snapshot *snapshot,
		      const struct cm_event *event)
{
	char name[TEXT_BYTES];

	cm_json_object(json, NULL);
	cm_json_text(json, "action", cm_action_name(event->action));
	/* The viewer needs a number. */
	if (event->action == CM_ACTION_OOM)
		cm_json_unsigned(json, "device_free",
				 event->addr == CM_FREE_UNKNOWN ? 0 : event->addr);
	else
		cm_json_unsigned(json, "addr", event->addr);
	cm_json_unsigned(json, "size", event->size);
	cm_json_unsigned(json, "stream", cm_snapshot_context(snapshot, event->heap));
	cm_json_unsigned(json, "time_us", cm_image_time(snapshot->image, event->tick) / NS_PER_US);
	cm_json_text(json, "compile_context", "N/A");
	if (event->annotation) {
		cm_text_clean(name, sizeof(name),
			      cm_image_range(snapshot->image, event->annotation));
		cm_json_text(json, "user_metadata", name);
	}
	put_frames(json, snapshot, event->stack);
	cm_json_end(json);
}

/* The device with this index, as the process counts them; NULL: the process never used it. */
static const struct cm_snap_device *find_device(const struct cm_snapshot *snapshot, int32_t ordinal)
{
	size_t i;

	for (i = 0; i + 1 < snapshot->devices; i++)
		if (snapshot->device[i].ordinal == ordinal)
			return &snapshot->device[i];
	return NULL;
}

static int32_t last_ordinal(const struct cm_snapshot *snapshot)
{
	int32_t last = -1;
	size_t i;

	for (i = 0; i + 1 < snapshot->devices; i++)
		if (snapshot->device[i].ordinal > last)
			last = snapshot->device[i].ordinal;
	return last;
}

static void put_segments(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	const struct cm_snap_device *device;
	int32_t ordinal;
	size_t i;

	cm_json_array(json, "segments");
	for (ordinal = 0; ordinal <= last_ordinal(snapshot); ordinal++) {
		device = find_device(snapshot, ordinal);
		for (i = 0; device && i < device->segments; i++)
			put_segment(json, snapshot, device,
				    &snapshot->segment[device->first_segment + i]);
	}
	cm_json_end(json);
}

/* The same for its memory outside the cache. */
static const struct cm_snap_device *find_outside(const struct cm_snapshot *snapshot,
						 int32_t ordinal)
{
	size_t i;

	for (i = 0; i < snapshot->outsides; i++)
		if (snapshot->outside[i].ordinal == ordinal)
			return &snapshot->outside[i];
	return NULL;
}

/* The next event of a device, which may be NULL, or NULL. */
static const struct cm_event *event_at(const struct cm_snapshot *snapshot,
				       const struct cm_snap_device *device, size_t i)
{
	return device && i < device->events ? &snapshot->event[device->first_event + i] : NULL;
}

/* The events of two devices, either of which may be NULL, in the order of their times. */
static void put_trace(struct cm_json *json, const struct cm_snapshot *snapshot,
		      const struct cm_snap_device *device, const struct cm_snap_device *outside)
{
	const struct cm_event *event, *other;
	size_t i = 0, j = 0;

	cm_json_array(json, NULL);
	for (;;) {
		event = event_at(snapshot, device, i);
		other = event_at(snapshot, outside, j);
		if (!event && !other)
			break;
		if (event && (!other || event->tick <= other->tick)) {
			put_event(json, snapshot, event);
			i++;
		} else {
			put_event(json, snapshot, other);
			j++;
		}
	}
	cm_json_end(json);
}

static void put_traces(struct cm_json *json, const struct cm_source *source)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	int32_t ordinal;

	cm_json_array(json, "device_traces");
	for (ordinal = 0; ordinal <= last_ordinal(snapshot); ordinal++)
		put_trace(json, snapshot, find_device(snapshot, ordinal),
			  source->uncached ? find_outside(snapshot, ordinal) : NULL);
	cm_json_end(json);
}

/* The options as the process had them, read back by the rules that they are written by. */
static void read_config(const struct cm_image *image, struct cm_config *ret_config)
{
	const struct cm_image_table *table = &image->table[CM_TABLE_OPTION];
	const struct cm_option_row *row = table->rows;
	char text[sizeof(row->name) + sizeof(row->value) + 2];
	uint32_t i;

	cm_config_init(ret_config);
	for (i = 0; i < table->count; i++) {
		(void)snprintf(text, sizeof(text), "%.*s:%.*s", (int)sizeof(row->name) - 1,
			       row[i].name, (int)sizeof(row->value) - 1, row[i].value);
		cm_config_parse(ret_config, CM_CONF_VARIABLE, text, NULL, NULL);
	}
}

static void put_settings(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	struct cm_config config;
	char key[16];
	uint32_t i;

	read_config(snapshot->image, &config);
	cm_json_object(json, "allocator_settings");
	cm_json_text(json, "PYTORCH_CUDA_ALLOC_CONF", "");
	cm_json_number(json, "max_split_size",
		       snapshot->devices > 1 ? snapshot->device[0].row->max_split_size : -1);
	cm_json_real(json, "garbage_collection_threshold", config.garbage_collection_threshold);
	cm_json_bool(json, "expandable_segments", config.expandable_segments);
	cm_json_number(json, "pinned_num_register_threads", 1);
	cm_json_bool(json, "release_lock_on_cudamalloc", true); /* the driver is called unlocked */
	cm_json_bool(json, "pinned_use_cuda_host_register", false);
	cm_json_bool(json, "graph_capture_record_stream_reuse", false);
	cm_json_object(json, "roundup_power2_divisions");
	for (i = 0; i < CM_DIVISION_SLOTS; i++) {
		(void)snprintf(key, sizeof(key), "%u", 1u << i);
		cm_json_number(json, key, config.roundup_power2_divisions[i]);
	}
	cm_json_end(json);
	cm_json_end(json);
}

static int put_ranges(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	struct cm_edge *edge;
	char raw[TEXT_BYTES], name[TEXT_BYTES];
	size_t count, i;
	int err;

	err = cm_ranges_find(snapshot, &edge, &count);
	if (err)
		return err;
	cm_json_array(json, "external_annotations");
	for (i = 0; i < count; i++) {
		(void)snprintf(raw, sizeof(raw), "%.*s", (int)edge[i].bytes, edge[i].name);
		cm_text_clean(name, sizeof(name), raw);
		cm_json_object(json, NULL);
		cm_json_text(json, "name", name);
		cm_json_text(json, "stage", edge[i].end ? "END" : "START");
		cm_json_number(json, "device", edge[i].ordinal);
		cm_json_unsigned(json, "time_us", edge[i].time_ns / NS_PER_US);
		cm_json_end(json);
	}
	cm_json_end(json);
	free(edge);
	return 0;
}

static int put_all(struct cm_json *json, const struct cm_source *source)
{
	int err;

	cm_json_object(json, NULL);
	put_segments(json, source->snapshot);
	put_traces(json, source);
	put_settings(json, source->snapshot);
	err = put_ranges(json, source->snapshot);
	cm_json_end(json);
	return err;
}

int cm_export_pickle(const struct cm_source *source, FILE *file)
{
	struct cm_pickle *pickle = cm_pickle_open(file);
	struct cm_json json;
	int err, closed;

	if (!pickle)
		return -ENOMEM;
	cm_json_init_pickle(&json, pickle);
	err = put_all(&json, source);
	closed = cm_pickle_close(pickle);
	return err ? err : closed;
}

int cm_export_json(const struct cm_source *source, FILE *file)
{
	struct cm_json json;

	cm_json_init(&json, file);
	return put_all(&json, source);
}
