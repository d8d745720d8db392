/* SPDX-License-Identifier: MIT */
/*
 * The data of the page (plot.h): of each device its facts and its columns, and what all devices
 * share: stacks, their functions, and the texts of annotations.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/output/text.h"
#include "tools/plot/outside.h"
#include "tools/plot/plot.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/history.h"
#include "tools/snapshot/lines.h"
#include "tools/snapshot/stretches.h"

#define TEXT_BYTES 4096
#define CLASSES    48     /* powers of two */
#define OOMS_MAX   100000 /* listed with their sizes */

static const char *const names[CM_PLOT_COUNT] = {
	[CM_PLOT_TIMELINE] = "timeline", [CM_PLOT_BLOCKS] = "blocks", [CM_PLOT_FLAME] = "flame",
	[CM_PLOT_SIZES] = "sizes",       [CM_PLOT_PAGE] = "page",
};

const char *cm_plot_name(enum cm_plot plot)
{
	return names[plot];
}

static uint32_t stack_of(const struct cm_snapshot *snapshot, uint32_t id)
{
	return (uint32_t)(cm_snapshot_stack(snapshot, id) - snapshot->stack);
}

/* What the columns of a device are made of. */
struct rows {
	const struct cm_history *history;
	const struct cm_stretch *stretch;
	const struct size_class *class;
	const uint64_t *uncached; /* bytes outside the cache after each event */
	uint64_t unit_ns;         /* of times */
	uint64_t addr;            /* of events that have none */
};

static bool has_addr(const struct cm_event *event)
{
	return event->action != CM_ACTION_OOM && event->action != CM_ACTION_SNAPSHOT;
}

/* Nanoseconds since the first event. */
static uint64_t time_of(const struct cm_history *history, size_t event)
{
	const uint64_t start = cm_history_time(history, 0);
	const uint64_t time = cm_history_time(history, event);

	return time > start ? time - start : 0;
}

/* The value of row i of a column, by the column's name. */
#define VALUE(name, expression)                             \
	static uint64_t name(const void *data, size_t i)    \
	{                                                   \
		const struct rows *rows = data;             \
		const struct cm_history *h = rows->history; \
		(void)h;                                    \
		return (expression);                        \
	}

VALUE(event_action, h->event[i].action)
/* What fails for memory may be larger than all else; it is in the list of these events. */
VALUE(event_addr, has_addr(&h->event[i]) ? h->event[i].addr : rows->addr)
VALUE(event_size, h->event[i].action == CM_ACTION_OOM ? 0 : h->event[i].size)
VALUE(event_stack, stack_of(h->snapshot, h->event[i].stack))
VALUE(event_thread, h->event[i].thread)
VALUE(event_annotation, h->event[i].annotation)
VALUE(event_time, time_of(h, i) / rows->unit_ns)
VALUE(event_uncached, rows->uncached[i])
VALUE(span_begin, h->span[i].begin)
VALUE(span_freed, h->span[i].freed)
VALUE(span_ready, h->span[i].ready)
VALUE(span_stack, stack_of(h->snapshot, h->span[i].stack))
VALUE(before_addr, h->span[i].addr)
VALUE(before_size, h->span[i].size)
VALUE(seg_addr, rows->stretch[i].addr)
VALUE(seg_size, rows->stretch[i].size)
VALUE(seg_begin, rows->stretch[i].begin)
VALUE(seg_end, rows->stretch[i].end)
VALUE(seg_stack, stack_of(h->snapshot, rows->stretch[i].stack))
VALUE(seg_small, rows->stretch[i].small)
VALUE(seg_paged, rows->stretch[i].paged)
#define COLUMN(name, count) cm_columns_add(columns, #name, count, name, rows)

static void put_events(struct cm_columns *columns, const struct rows *rows)
{
	const size_t count = rows->history->events;

	COLUMN(event_action, count);
	COLUMN(event_addr, count);
	COLUMN(event_size, count);
	COLUMN(event_stack, count);
	COLUMN(event_thread, count);
	COLUMN(event_annotation, count);
	cm_columns_add_growing(columns, "event_time", count, event_time, rows);
}

/* The address, size and so on of an allocation are those of the event that begins it; those that
 * have none come first. */
static void put_spans(struct cm_columns *columns, const struct rows *rows)
{
	const struct cm_history *history = rows->history;
	size_t before = 0;

	while (before < history->spans && history->span[before].begin == CM_BEFORE)
		before++;
	cm_columns_add_growing(columns, "span_begin", history->spans, span_begin, rows);
	COLUMN(span_freed, history->spans);
	COLUMN(span_ready, history->spans);
	COLUMN(span_stack, history->spans);
	COLUMN(before_addr, before);
	COLUMN(before_size, before);
}

/* How much of it there was after each event of the device; a column only where there is such
 * memory. */
static int put_uncached(struct cm_columns *columns, struct rows *rows)
{
	const struct cm_history *history = rows->history;
	struct cm_outside outside;
	uint64_t *levels;
	size_t i;
	int err;

	err = cm_outside_open(history->snapshot, history->device, &outside);
	if (err)
		return err == -ENODATA ? 0 : err;
	levels = calloc(history->events + 1, sizeof(*levels));
	for (i = 0; levels && i < history->events; i++) {
		while (cm_outside_read(&outside, cm_history_time(history, i)))
			;
		levels[i] = cm_outside_level(&outside);
	}
	rows->uncached = levels;
	if (levels && history->events)
		COLUMN(event_uncached, history->events);
	cm_outside_close(&outside);
	free(levels);
	return levels ? 0 : -ENOMEM;
}

static int put_segments(struct cm_columns *columns, struct rows *rows)
{
	struct cm_stretch *item;
	size_t count;
	int err;

	err = cm_stretches_find(rows->history, &item, &count);
	if (err)
		return err;
	rows->stretch = item;
	COLUMN(seg_addr, count);
	COLUMN(seg_size, count);
	COLUMN(seg_begin, count);
	COLUMN(seg_end, count);
	COLUMN(seg_stack, count);
	COLUMN(seg_small, count);
	COLUMN(seg_paged, count);
	free(item);
	return 0;
}

static size_t class_of(uint64_t size)
{
	const size_t class = size ? 63 - (size_t)__builtin_clzll(size) : 0;

	return class < CLASSES ? class : CLASSES - 1;
}

/* One size class of the memory at the end: live blocks and their rounding, free blocks. */
struct size_class {
	uint64_t live, live_bytes, waste_bytes, free, free_bytes;
};

VALUE(class_live, rows->class[i].live)
VALUE(class_live_bytes, rows->class[i].live_bytes)
VALUE(class_waste_bytes, rows->class[i].waste_bytes)
VALUE(class_free, rows->class[i].free)
VALUE(class_free_bytes, rows->class[i].free_bytes)

static void put_classes(struct cm_columns *columns, struct rows *rows)
{
	struct size_class class[CLASSES] = {0}, *at;
	const struct cm_block *block;
	size_t n, blocks;

	block = cm_device_blocks(rows->history->snapshot, rows->history->device, &blocks);
	for (n = 0; n < blocks; n++, block++) {
		if (block->state == CM_BLOCK_LIVE) {
			at = &class[class_of(block->requested)];
			at->live++;
			at->live_bytes += block->requested;
			if (block->size > block->requested)
				at->waste_bytes += block->size - block->requested;
		} else if (block->state == CM_BLOCK_FREE) {
			at = &class[class_of(block->size)];
			at->free++;
			at->free_bytes += block->size;
		}
	}
	rows->class = class;
	COLUMN(class_live, CLASSES);
	COLUMN(class_live_bytes, CLASSES);
	COLUMN(class_waste_bytes, CLASSES);
	COLUMN(class_free, CLASSES);
	COLUMN(class_free_bytes, CLASSES);
	rows->class = NULL;
}

/* [event, requested bytes, free bytes of the device or null] of each event of this kind. */
static void put_ooms(struct cm_json *json, const struct cm_history *history)
{
	size_t i, count = 0;

	cm_json_array(json, "ooms");
	for (i = 0; i < history->events && count < OOMS_MAX; i++) {
		if (history->event[i].action != CM_ACTION_OOM)
			continue;
		cm_json_array(json, NULL);
		cm_json_unsigned(json, NULL, i);
		cm_json_unsigned(json, NULL, history->event[i].size);
		if (history->event[i].addr == CM_FREE_UNKNOWN)
			cm_json_null(json, NULL);
		else
			cm_json_unsigned(json, NULL, history->event[i].addr);
		cm_json_end(json);
		count++;
	}
	cm_json_end(json);
}

/* The figures at the end, in the words of the glossary. */
static void put_figures(struct cm_json *json, const struct cm_history *history)
{
	struct cm_figures figures;

	cm_figures_get(history->snapshot, history->device, &figures);
	cm_json_object(json, "figures");
	cm_json_unsigned(json, "allocated", figures.allocated);
	cm_json_unsigned(json, "requested", figures.requested);
	cm_json_unsigned(json, "rounding", figures.rounding);
	cm_json_unsigned(json, "pending_free", figures.pending);
	cm_json_unsigned(json, "fragmented", figures.fragmented);
	cm_json_unsigned(json, "releasable", figures.releasable);
	cm_json_unsigned(json, "reserved", figures.reserved);
	cm_json_unsigned(json, "largest_free", figures.largest_free);
	cm_json_unsigned(json, "blocks", figures.blocks);
	cm_json_unsigned(json, "segments", figures.segments);
	cm_json_end(json);
}

static struct rows rows_of(const struct cm_history *history)
{
	struct rows rows = {.history = history};
	size_t i;

	if (history->events)
		rows.unit_ns = time_of(history, history->events - 1) / UINT32_MAX + 1;
	for (i = 0; i < history->events && !rows.addr; i++)
		if (has_addr(&history->event[i]))
			rows.addr = history->event[i].addr;
	return rows;
}

static void put_device_facts(struct cm_json *json, const struct rows *rows)
{
	const struct cm_history *history = rows->history;
	const struct cm_snap_device *device = history->device;

	cm_json_text(json, "name", cm_device_title(device).text);
	cm_json_unsigned(json, "capacity", device->row ? device->row->total_bytes : 0);
	cm_json_unsigned(json, "limit", device->row ? device->row->allowed_bytes : 0);
	cm_json_unsigned(json, "events", history->events);
	cm_json_unsigned(json, "lost", device->lost);
	cm_json_unsigned(json, "spans", history->spans);
	cm_json_unsigned(json, "allocated_at_start", history->start.allocated);
	cm_json_unsigned(json, "active_at_start", history->start.active);
	cm_json_unsigned(json, "reserved_at_start", history->start.reserved);
	cm_json_number(json, "peak", history->peak == CM_BEFORE ? -1 : (int64_t)history->peak);
	cm_json_unsigned(json, "unit_ns", rows->unit_ns);
	if (history->events)
		cm_json_unsigned(json, "start_ms", cm_history_time(history, 0) / 1000000);
	put_figures(json, history);
	put_ooms(json, history);
}

static int put_device(struct cm_columns *columns, const struct cm_snapshot *snapshot,
		      const struct cm_snap_device *device, struct cm_plot_report *report)
{
	struct cm_json *json = &columns->json;
	struct cm_history *history;
	struct rows rows;
	int err;

	err = cm_history_create(snapshot, device, &history);
	if (err)
		return err;
	rows = rows_of(history);
	cm_json_object(json, NULL);
	put_device_facts(json, &rows);
	cm_json_array(json, "columns");
	put_events(columns, &rows);
	put_spans(columns, &rows);
	err = put_segments(columns, &rows);
	if (!err)
		err = put_uncached(columns, &rows);
	put_classes(columns, &rows);
	cm_json_end(json);
	cm_json_end(json);
	report->events += history->events;
	report->spans += history->spans;
	cm_history_destroy(history);
	return err;
}

/* Each stack as reports print it, beginning with the frame that matters. */
static int put_lines(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	const struct cm_view view = {CM_BY_CALLER, CM_VIEW_DEPTH, false, CM_VIEW_ROWS};
	char *line = NULL;
	size_t i;

	cm_json_array(json, "lines");
	for (i = 0; i < snapshot->stacks; i++) {
		line = cm_stack_spell(snapshot, &snapshot->stack[i], &view);
		if (!line)
			break;
		cm_json_text(json, NULL, line);
		free(line);
	}
	cm_json_end(json);
	return i < snapshot->stacks ? -ENOMEM : 0;
}

/* "step", or with the native function that Python called "step (forward)". */
static void put_caller(struct cm_json *json, const struct cm_snapshot *snapshot,
		       const struct cm_snap_stack *stack)
{
	const struct cm_function_text caller = cm_function_format(cm_stack_caller(snapshot, stack));
	const struct cm_snap_frame *called = cm_stack_called(snapshot, stack);
	char text[2 * CM_LAYER_NAME_BYTES + 8];

	(void)snprintf(text, sizeof(text), "%s%s%s%s", caller.text, called ? " (" : "",
		       called ? cm_function_format(called).text : "", called ? ")" : "");
	cm_json_text(json, NULL, text);
}

static void put_stacks(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	size_t i;
	uint32_t f;

	cm_json_array(json, "frames");
	for (i = 0; i < snapshot->frames; i++) {
		cm_json_array(json, NULL);
		cm_json_text(json, NULL, snapshot->frame[i].function);
		cm_json_text(json, NULL, snapshot->frame[i].file);
		cm_json_unsigned(json, NULL, snapshot->frame[i].line);
		cm_json_end(json);
	}
	cm_json_end(json);
	cm_json_array(json, "stacks");
	for (i = 0; i < snapshot->stacks; i++) {
		const struct cm_snap_stack *stack = &snapshot->stack[i];

		cm_json_array(json, NULL);
		for (f = 0; f < stack->count; f++)
			cm_json_unsigned(json, NULL, snapshot->frame_list[stack->first + f]);
		cm_json_end(json);
	}
	cm_json_end(json);
	cm_json_array(json, "callers");
	for (i = 0; i < snapshot->stacks; i++)
		put_caller(json, snapshot, &snapshot->stack[i]);
	cm_json_end(json);
	cm_json_array(json, "caller_at");
	for (i = 0; i < snapshot->stacks; i++)
		cm_json_unsigned(json, NULL, cm_stack_caller_at(snapshot, &snapshot->stack[i]));
	cm_json_end(json);
}

/* The texts of annotations, by their offset in the table of texts. */
static int put_texts(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	const uint32_t bytes = snapshot->image->table[CM_TABLE_TEXT].count;
	bool *used = calloc(bytes + (size_t)1, sizeof(*used));
	char clean[TEXT_BYTES], key[16];
	size_t i;

	if (!used)
		return -ENOMEM;
	cm_json_object(json, "texts");
	for (i = 0; i < snapshot->events; i++) {
		const uint32_t id = snapshot->event[i].annotation;

		if (!id || id >= bytes || used[id])
			continue;
		used[id] = true;
		cm_text_clean(clean, sizeof(clean), cm_image_range(snapshot->image, id));
		(void)snprintf(key, sizeof(key), "%u", id);
		cm_json_text(json, key, clean);
	}
	cm_json_end(json);
	free(used);
	return 0;
}

static int put_file(struct cm_columns *columns, const struct cm_source *source,
		    struct cm_plot_report *report)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	struct cm_json *json = &columns->json;
	const struct cm_snap_device *device;
	const char *remark[CM_REMARKS_MAX];
	size_t remarks, i;
	int err;

	cm_json_object(json, NULL);
	cm_json_text(json, "program", source->comm);
	cm_json_text(json, "command", source->command);
	cm_json_number(json, "pid", source->pid);
	cm_json_text(json, "time", cm_time_format(snapshot->image->saved.time_ns).text);
	remarks = cm_saved_remark(&snapshot->image->saved, remark);
	cm_json_array(json, "remarks");
	for (i = 0; i < remarks; i++)
		cm_json_text(json, NULL, remark[i]);
	if (*source->left_out)
		cm_json_text(json, NULL, source->left_out);
	cm_json_end(json);
	put_stacks(json, snapshot);
	err = put_lines(json, snapshot);
	if (!err)
		err = put_texts(json, snapshot);
	cm_json_array(json, "devices");
	for (i = 0; (device = cm_snapshot_device(snapshot, i)) && !err; i++)
		if (cm_snap_device_is_used(snapshot, device))
			err = put_device(columns, snapshot, device, report);
	cm_json_end(json);
	cm_json_end(json);
	return err;
}

int cm_plot_collect(const struct cm_source *source, size_t count, enum cm_plot plot,
		    struct cm_columns *columns, struct cm_plot_report *report)
{
	struct cm_json *json = &columns->json;
	size_t i;
	int err = 0;

	cm_json_object(json, NULL);
	cm_json_text(json, "kind", cm_plot_name(plot));
	cm_json_text(json, "tool", CM_PROGRAM " " CM_VERSION);
	cm_json_array(json, "files");
	for (i = 0; i < count && !err; i++)
		err = put_file(columns, &source[i], report);
	cm_json_end(json);
	cm_json_end(json);
	return err;
}
