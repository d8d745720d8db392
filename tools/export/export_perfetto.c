/* SPDX-License-Identifier: MIT */
/*
 * A trace for Perfetto: for each device three counters (allocated, active, reserved) and a track of
 * requests, each an instant event with its call stack and its bytes as weight. Selecting a time
 * range then shows a flame graph of what was requested in it.
 *
 * Field numbers are those of Perfetto's public trace_packet.proto and track_event.proto; the test
 * decodes them with descriptions of its own.
 */
#include <errno.h>
#include <inttypes.h>

#include "tools/export/export.h"
#include "tools/export/protobuf.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/lines.h"

enum {
	TRACE_PACKET = 1,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_CLOCK = 58,
	PACKET_TRACK_DESCRIPTOR = 60,
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8,
	COUNTER_UNIT = 3,
	COUNTER_SHARE_KEY = 7,
	UNIT_BYTES = 3,
	PROCESS_PID = 1,
	PROCESS_NAME = 6,
	EVENT_TYPE = 9,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_COUNTER = 30,
	EVENT_STACK = 55,
	EVENT_WEIGHT = 57,
	TYPE_INSTANT = 3,
	TYPE_COUNTER = 4,
	STACK_FRAME = 1,
	FRAME_FUNCTION = 1,
	FRAME_FILE = 2,
	FRAME_LINE = 3,
	CLOCK_REALTIME_ID = 1,
	SEQUENCE = 1,
	SEQUENCE_CLEARED = 1,
};

#define PROCESS_UUID UINT64_C(0x6375) /* arbitrary distinct numbers */
#define TRACK_UUIDS  16               /* per device */

enum track { TRACK_ALLOCATED, TRACK_ACTIVE, TRACK_RESERVED, TRACK_REQUESTS, TRACK_COUNT };

struct writer {
	FILE *file;
	const struct cm_snapshot *snapshot;
	struct cm_protobuf trace, packet, event, stack, frame;
};

static uint64_t uuid_of(const struct cm_snap_device *device, enum track track)
{
	const uint64_t number = (uint64_t)device->ordinal + 2 +
				(device->outside ? UINT64_C(1) << 32 : 0);

	return PROCESS_UUID + number * TRACK_UUIDS + (uint64_t)track;
}

static void put_packet(struct writer *writer)
{
	cm_protobuf_number(&writer->packet, PACKET_SEQUENCE, SEQUENCE);
	cm_protobuf_clear(&writer->trace);
	cm_protobuf_message(&writer->trace, TRACE_PACKET, &writer->packet);
	(void)fwrite(writer->trace.bytes, 1, writer->trace.count, writer->file);
	cm_protobuf_clear(&writer->packet);
}

static void put_track(struct writer *writer, uint64_t uuid, uint64_t parent, const char *name,
		      bool counter)
{
	struct cm_protobuf *track = &writer->event, *unit = &writer->stack;

	cm_protobuf_clear(track);
	cm_protobuf_number(track, TRACK_UUID, uuid);
	cm_protobuf_number(track, TRACK_PARENT, parent);
	cm_protobuf_text(track, TRACK_NAME, name);
	if (counter) {
		cm_protobuf_clear(unit);
		cm_protobuf_number(unit, COUNTER_UNIT, UNIT_BYTES);
		cm_protobuf_text(unit, COUNTER_SHARE_KEY, "bytes");
		cm_protobuf_message(track, TRACK_COUNTER, unit);
	}
	cm_protobuf_message(&writer->packet, PACKET_TRACK_DESCRIPTOR, track);
	put_packet(writer);
}

static void put_process(struct writer *writer, const struct cm_source *source)
{
	struct cm_protobuf *track = &writer->event, *process = &writer->stack;

	cm_protobuf_clear(process);
	cm_protobuf_number(process, PROCESS_PID, (uint64_t)(source->pid > 0 ? source->pid : 1));
	cm_protobuf_text(process, PROCESS_NAME, source->comm);
	cm_protobuf_clear(track);
	cm_protobuf_number(track, TRACK_UUID, PROCESS_UUID);
	cm_protobuf_message(track, TRACK_PROCESS, process);
	cm_protobuf_number(&writer->packet, PACKET_SEQUENCE_FLAGS, SEQUENCE_CLEARED);
	cm_protobuf_message(&writer->packet, PACKET_TRACK_DESCRIPTOR, track);
	put_packet(writer);
}

static void begin_event(struct writer *writer, uint64_t time, uint64_t type, uint64_t track)
{
	cm_protobuf_number(&writer->packet, PACKET_TIMESTAMP, time);
	cm_protobuf_number(&writer->packet, PACKET_CLOCK, CLOCK_REALTIME_ID);
	cm_protobuf_clear(&writer->event);
	cm_protobuf_number(&writer->event, EVENT_TYPE, type);
	cm_protobuf_number(&writer->event, EVENT_TRACK, track);
}

static void end_event(struct writer *writer)
{
	cm_protobuf_message(&writer->packet, PACKET_TRACK_EVENT, &writer->event);
	put_packet(writer);
}

static void put_counter(struct writer *writer, uint64_t time, uint64_t track, uint64_t value)
{
	begin_event(writer, time, TYPE_COUNTER, track);
	cm_protobuf_number(&writer->event, EVENT_COUNTER, value);
	end_event(writer);
}

static void put_frame(struct writer *writer, const struct cm_snap_frame *frame)
{
	cm_protobuf_clear(&writer->frame);
	cm_protobuf_text(&writer->frame, FRAME_FUNCTION, frame->function);
	if (frame->line) {
		cm_protobuf_text(&writer->frame, FRAME_FILE, frame->file);
		cm_protobuf_number(&writer->frame, FRAME_LINE, frame->line);
	}
	cm_protobuf_message(&writer->stack, STACK_FRAME, &writer->frame);
}

/* Outermost first. */
static void put_stack(struct writer *writer, const struct cm_snap_stack *stack)
{
	uint32_t i;

	cm_protobuf_clear(&writer->stack);
	for (i = stack->count; i-- > 0;)
		put_frame(writer, cm_stack_frame(writer->snapshot, stack, i));
	if (!stack->count) /* all events of a track must have a weight, or none */
		put_frame(writer, cm_stack_caller(writer->snapshot, stack));
	cm_protobuf_message(&writer->event, EVENT_STACK, &writer->stack);
}

static void put_request(struct writer *writer, uint64_t time, uint64_t track,
			const struct cm_event *event)
{
	begin_event(writer, time, TYPE_INSTANT, track);
	cm_protobuf_text(&writer->event, EVENT_NAME, cm_action_name(event->action));
	put_stack(writer, cm_snapshot_stack(writer->snapshot, event->stack));
	cm_protobuf_double(&writer->event, EVENT_WEIGHT, (double)event->size);
	end_event(writer);
}

static void put_levels(struct writer *writer, uint64_t time, const struct cm_snap_device *device,
		       const struct cm_level *now, const struct cm_level *before)
{
	if (!before || now->allocated != before->allocated)
		put_counter(writer, time, uuid_of(device, TRACK_ALLOCATED), now->allocated);
	if (device->outside)
		return;
	if (!before || now->active != before->active)
		put_counter(writer, time, uuid_of(device, TRACK_ACTIVE), now->active);
	if (!before || now->reserved != before->reserved)
		put_counter(writer, time, uuid_of(device, TRACK_RESERVED), now->reserved);
}

static int put_device(struct writer *writer, const struct cm_snap_device *device)
{
	static const char *const names[TRACK_COUNT] = {"allocated", "active", "reserved",
						       "requests"};
	const struct cm_level *before = NULL;
	struct cm_history *history;
	uint64_t time;
	char text[128];
	size_t i;

	if (!device->events || !cm_snap_device_is_used(writer->snapshot, device))
		return 0;
	if (cm_history_create(writer->snapshot, device, &history))
		return -ENOMEM;
	for (i = 0; i < TRACK_COUNT; i++) {
		/* Outside the cache nothing else is known. */
		if (device->outside && i != TRACK_ALLOCATED && i != TRACK_REQUESTS)
			continue;
		(void)snprintf(text, sizeof(text), "%s %s", cm_device_short(device).text, names[i]);
		put_track(writer, uuid_of(device, (enum track)i), PROCESS_UUID, text,
			  i != TRACK_REQUESTS);
	}
	for (i = 0; i < history->events; i++) {
		time = cm_history_time(history, i);
		put_levels(writer, time, device, &history->level[i], before);
		before = &history->level[i];
		if (history->event[i].action == CM_ACTION_ALLOC ||
		    history->event[i].action == CM_ACTION_OOM)
			put_request(writer, time, uuid_of(device, TRACK_REQUESTS),
				    &history->event[i]);
	}
	cm_history_destroy(history);
	return 0;
}

int cm_export_perfetto(const struct cm_source *source, FILE *file)
{
	struct writer writer = {.file = file, .snapshot = source->snapshot};
	const struct cm_snap_device *device;
	int err = 0;
	size_t i;

	put_process(&writer, source);
	for (i = 0; (device = cm_snapshot_device(source->snapshot, i)) && !err; i++)
		err = put_device(&writer, device);
	if (writer.trace.failed)
		err = -ENOMEM;
	cm_protobuf_fini(&writer.trace);
	cm_protobuf_fini(&writer.packet);
	cm_protobuf_fini(&writer.event);
	cm_protobuf_fini(&writer.stack);
	cm_protobuf_fini(&writer.frame);
	return err;
}
