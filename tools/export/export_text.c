/* SPDX-License-Identifier: MIT */
/*
 * The text formats: folded stacks, speedscope, and the events as CSV.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/export/export.h"
#include "tools/output/json.h"
#include "tools/output/quote.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/lines.h"

#define TEXT_BYTES 4096

struct text_writer {
	const struct cm_snapshot *snapshot;
	FILE *file;
};

/* ';' separates frames, so it may not occur in a name. */
static void put_folded_name(FILE *file, const char *name)
{
	for (; *name; name++)
		(void)putc(*name == ';' ? ':' : *name, file);
}

static int put_folded(void *data, const struct cm_snap_device *device, const struct cm_sum *sums,
		      size_t count)
{
	const struct text_writer *writer = data;
	const struct cm_snap_stack *stack;
	uint32_t f;
	size_t i;

	for (i = 0; i < count; i++) {
		if (!sums[i].bytes[CM_MEASURE_LIVE])
			continue;
		stack = &writer->snapshot->stack[sums[i].stack];
		(void)fputs(cm_device_short(device).text, writer->file);
		for (f = stack->count; f-- > 0;) {
			(void)putc(';', writer->file);
			put_folded_name(writer->file,
					cm_stack_frame(writer->snapshot, stack, f)->function);
		}
		if (!stack->count)
			(void)fprintf(writer->file, ";%s",
				      cm_stack_caller(writer->snapshot, stack)->function);
		(void)fprintf(writer->file, " %" PRIu64 "\n", sums[i].bytes[CM_MEASURE_LIVE]);
	}
	return 0;
}

int cm_export_folded(const struct cm_source *source, FILE *file)
{
	struct text_writer writer = {source->snapshot, file};

	return cm_sums_each(source->snapshot, put_folded, &writer);
}

struct scope_writer {
	const struct cm_snapshot *snapshot;
	struct cm_json json;
};

/* Writes one profile. Samples are lists of frames, outermost first. */
static void put_profile(struct scope_writer *writer, const char *device, enum cm_measure measure,
			bool bytes, const struct cm_sum *sums, size_t count)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	struct cm_json *json = &writer->json;
	uint64_t total = 0;
	char name[128];
	uint32_t f;
	size_t i;

	(void)snprintf(name, sizeof(name), "%s, %s, %s", device, cm_measure_name(measure),
		       bytes ? "bytes" : "blocks");
	cm_json_object(json, NULL);
	cm_json_text(json, "type", "sampled");
	cm_json_text(json, "name", name);
	cm_json_text(json, "unit", bytes ? "bytes" : "none");
	cm_json_array(json, "samples");
	for (i = 0; i < count; i++) {
		const struct cm_snap_stack *stack = &snapshot->stack[sums[i].stack];

		if (!sums[i].count[measure])
			continue;
		cm_json_array(json, NULL);
		for (f = stack->count; f-- > 0;)
			cm_json_unsigned(json, NULL, snapshot->frame_list[stack->first + f]);
		if (!stack->count)
			cm_json_unsigned(json, NULL, snapshot->frames);
		cm_json_end(json);
	}
	cm_json_end(json);
	cm_json_array(json, "weights");
	for (i = 0; i < count; i++) {
		const uint64_t weight = bytes ? sums[i].bytes[measure] : sums[i].count[measure];

		if (!sums[i].count[measure])
			continue;
		cm_json_unsigned(json, NULL, weight);
		total += weight;
	}
	cm_json_end(json);
	cm_json_number(json, "startValue", 0);
	cm_json_unsigned(json, "endValue", total);
	cm_json_end(json);
}

static int put_scopes(void *data, const struct cm_snap_device *device, const struct cm_sum *sums,
		      size_t count)
{
	struct scope_writer *writer = data;
	const struct cm_device_text name = cm_device_short(device);
	int m;

	for (m = 0; count && m < CM_MEASURE_COUNT; m++) {
		put_profile(writer, name.text, (enum cm_measure)m, true, sums, count);
		put_profile(writer, name.text, (enum cm_measure)m, false, sums, count);
	}
	return 0;
}

static void put_scope_frames(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	size_t i;

	cm_json_object(json, "shared");
	cm_json_array(json, "frames");
	for (i = 0; i < snapshot->frames; i++) {
		const struct cm_snap_frame *frame = &snapshot->frame[i];

		cm_json_object(json, NULL);
		cm_json_text(json, "name", frame->function);
		if (strcmp(frame->file, "??"))
			cm_json_text(json, "file", frame->file);
		if (frame->line)
			cm_json_unsigned(json, "line", frame->line);
		cm_json_end(json);
	}
	cm_json_object(json, NULL);
	cm_json_text(json, "name", cm_stack_caller(snapshot, &snapshot->stack[0])->function);
	cm_json_end(json);
	cm_json_end(json);
	cm_json_end(json);
}

int cm_export_speedscope(const struct cm_source *source, FILE *file)
{
	struct scope_writer writer = {.snapshot = source->snapshot};
	char name[96];
	int err;

	cm_json_init(&writer.json, file);
	cm_json_object(&writer.json, NULL);
	cm_json_text(&writer.json, "$schema", "https://www.speedscope.app/file-format-schema.json");
	(void)snprintf(name, sizeof(name), "%s, process %d", source->comm, (int)source->pid);
	cm_json_text(&writer.json, "name", name);
	cm_json_text(&writer.json, "exporter", CM_PROGRAM "@" CM_VERSION);
	put_scope_frames(&writer.json, source->snapshot);
	cm_json_array(&writer.json, "profiles");
	err = cm_sums_each(source->snapshot, put_scopes, &writer);
	cm_json_end(&writer.json);
	cm_json_end(&writer.json);
	return err;
}

/* "function;file;line" of each frame, innermost first, separated by '|'. */
static int put_csv_stack(FILE *file, const struct cm_snapshot *snapshot,
			 const struct cm_snap_stack *stack)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);
	uint32_t i;
	int err;

	if (!memory)
		return -ENOMEM;
	for (i = 0; i < stack->count; i++) {
		const struct cm_snap_frame *frame = cm_stack_frame(snapshot, stack, i);

		(void)fprintf(memory, "%s%s;%s;%u", i ? "|" : "", frame->function, frame->file,
			      frame->line);
	}
	err = fclose(memory) ? -ENOMEM : 0;
	if (!err)
		cm_quote_csv(file, text);
	free(text);
	return err;
}

static int put_csv_event(FILE *file, const struct cm_snapshot *snapshot,
			 const struct cm_snap_device *device, const struct cm_event *event)
{
	const char *action = cm_snap_event_name(device, event);
	char annotation[TEXT_BYTES];
	int err;

	if (!action)
		return 0;
	if (device->row)
		(void)fprintf(file, "%d", (int)device->ordinal);
	else
		(void)fputs("host", file);
	(void)fprintf(file, ",%" PRIu64 ",%" PRIu64 ",%s,%s,0x%" PRIx64 ",%" PRIu64 ",%u,%u,",
		      event->number, cm_image_time(snapshot->image, event->tick), action,
		      device->outside ? cm_uncached_name(event->pool) : "",
		      event->action == CM_ACTION_OOM ? UINT64_C(0) : event->addr, event->size,
		      event->thread, (unsigned)cm_snapshot_context(snapshot, event->heap));
	if (event->action == CM_ACTION_OOM && event->addr != CM_FREE_UNKNOWN)
		(void)fprintf(file, "%" PRIu64, event->addr);
	(void)putc(',', file);
	cm_text_clean(annotation, sizeof(annotation),
		      cm_image_range(snapshot->image, event->annotation));
	cm_quote_csv(file, annotation);
	(void)putc(',', file);
	err = put_csv_stack(file, snapshot, cm_snapshot_stack(snapshot, event->stack));
	(void)fputs("\r\n", file);
	return err;
}

int cm_export_csv(const struct cm_source *source, FILE *file)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	const struct cm_snap_device *device;
	size_t d, i;
	int err = 0;

	(void)fputs("device,number,time_ns,action,kind,address,size_bytes,thread,"
		    "context,device_free_bytes,annotation,stack\r\n",
		    file);
	for (d = 0; (device = cm_snapshot_device(snapshot, d)) && !err; d++)
		for (i = 0; i < device->events && !err; i++)
			err = put_csv_event(file, snapshot, device,
					    &snapshot->event[device->first_event + i]);
	return err;
}
