/* SPDX-License-Identifier: MIT */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "stats/text.h"
#include "tools/output/text.h"
#include "tools/plot/plot.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/history.h"
#include "tools/snapshot/lines.h"
#include "tools/snapshot/stretches.h"

#define BINS_MAX   65536 /* bins of events on the time axis */
#define SPANS_MAX  15000 /* allocations drawn one by one on the timeline */
#define PIXELS     2000  /* assumed width of the picture */
#define TEXT_BYTES 4096
#define CLASSES    48 /* powers of two */

static const char *const names[CM_PLOT_COUNT] = {
	[CM_PLOT_TIMELINE] = "timeline",
	[CM_PLOT_BLOCKS] = "blocks",
	[CM_PLOT_FLAME] = "flame",
	[CM_PLOT_SIZES] = "sizes",
};

const char *cm_plot_name(enum cm_plot plot)
{
	return names[plot];
}

/* A column that is being written. */
struct column {
	struct cm_columns *to;
	const char *name;
	const char *type;
	size_t start;
	size_t count;
};

static struct column open_column(struct cm_columns *to, const char *name, const char *type)
{
	static const char zeros[8];
	struct column column = {.to = to, .name = name, .type = type};
	const long at = ftell(to->file);

	if (at % 8)
		(void)fwrite(zeros, 1, 8 - (size_t)(at % 8), to->file);
	column.start = (size_t)ftell(to->file);
	return column;
}

/* JavaScript's numbers are doubles: exact up to 2^53, beyond all addresses and sizes. */
static void put_real(struct column *column, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	bits = htole64(bits);
	(void)fwrite_unlocked(&bits, sizeof(bits), 1, column->to->file);
	column->count++;
}

static void put_word(struct column *column, uint32_t value)
{
	value = htole32(value);
	(void)fwrite_unlocked(&value, sizeof(value), 1, column->to->file);
	column->count++;
}

static void put_byte(struct column *column, uint8_t value)
{
	(void)putc_unlocked(value, column->to->file);
	column->count++;
}

/* Adds the column to the array of columns, which is open in the description. */
static void close_column(struct column *column)
{
	struct cm_json *json = &column->to->json;

	cm_json_array(json, NULL);
	cm_json_text(json, NULL, column->name);
	cm_json_text(json, NULL, column->type);
	cm_json_unsigned(json, NULL, column->start);
	cm_json_unsigned(json, NULL, column->count);
	cm_json_end(json);
}

/* Writes `count` values to a column of `columns`; `value` is an expression of i. */
#define PUT_COLUMN(name, type, put, count, value)                        \
	do {                                                             \
		struct column put_to = open_column(columns, name, type); \
		size_t i;                                                \
		for (i = 0; i < (count); i++)                            \
			put(&put_to, value);                             \
		close_column(&put_to);                                   \
	} while (0)
#define REALS(name, count, value) PUT_COLUMN(name, "f64", put_real, count, (double)(value))
#define WORDS(name, count, value) PUT_COLUMN(name, "u32", put_word, count, value)
#define BYTES(name, count, value) PUT_COLUMN(name, "u8", put_byte, count, value)

static uint32_t stack_of(const struct cm_snapshot *snapshot, uint32_t id)
{
	return (uint32_t)(cm_snapshot_stack(snapshot, id) - snapshot->stack);
}

/* Milliseconds since the first event. */
static double time_of(const struct cm_history *history, size_t event)
{
	const struct cm_image *image = history->snapshot->image;
	const uint64_t start = cm_image_time(image, history->event[0].tick);
	const uint64_t time = cm_image_time(image, history->event[event].tick);

	return time > start ? (double)(time - start) / 1e6 : 0;
}

/* Each bin of events is represented by the event after which most was allocated. */
static int put_bins(struct cm_columns *columns, const struct cm_history *history)
{
	const size_t step = history->events / BINS_MAX + 1;
	const size_t count = (history->events + step - 1) / step;
	uint32_t *best = calloc(count + 1, sizeof(*best));
	size_t bin, e;

	if (!best)
		return -ENOMEM;
	for (bin = 0; bin < count; bin++) {
		best[bin] = (uint32_t)(bin * step);
		for (e = bin * step; e < (bin + 1) * step && e < history->events; e++)
			if (history->level[e].allocated > history->level[best[bin]].allocated)
				best[bin] = (uint32_t)e;
	}
	WORDS("bin_event", count, best[i]);
	REALS("bin_time", count, time_of(history, best[i]));
	REALS("bin_allocated", count, history->level[best[i]].allocated);
	REALS("bin_active", count, history->level[best[i]].active);
	REALS("bin_reserved", count, history->level[best[i]].reserved);
	free(best);
	return 0;
}

/* Writes spans in the order of their allocation. */
static void put_spans(struct cm_columns *columns, const struct cm_history *history,
		      const struct cm_span *span, size_t count)
{
	const struct cm_snapshot *snapshot = history->snapshot;

	REALS("span_addr", count, span[i].addr);
	REALS("span_size", count, span[i].size);
	WORDS("span_begin", count, span[i].begin);
	WORDS("span_freed", count, span[i].freed);
	WORDS("span_ready", count, span[i].ready);
	WORDS("span_stack", count, stack_of(snapshot, span[i].stack));
	WORDS("span_thread", count, span[i].thread);
	WORDS("span_annotation", count, span[i].annotation);
}

/* The area of a span on the whole picture, where a span is at least about a pixel wide. */
static double area_of(const struct cm_span *span, size_t events)
{
	const double begin = span->begin == CM_BEFORE ? 0 : span->begin;
	const double end = span->freed < CM_NEVER ? span->freed : (double)events;
	const double least = (double)events / PIXELS;

	return (double)span->size * (end - begin > least ? end - begin : least);
}

static int by_area(const void *a, const void *b, void *data)
{
	const struct cm_span *x = *(const struct cm_span *const *)a;
	const struct cm_span *y = *(const struct cm_span *const *)b;
	const size_t events = *(const size_t *)data;
	const double p = area_of(x, events), q = area_of(y, events);

	if (p != q)
		return p > q ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int by_place(const void *a, const void *b)
{
	const struct cm_span *x = *(const struct cm_span *const *)a;
	const struct cm_span *y = *(const struct cm_span *const *)b;

	return x < y ? -1 : x > y;
}

/* Writes the spans with the largest areas, by allocation; the page shows the others as "rest". */
static int put_largest(struct cm_columns *columns, const struct cm_history *history,
		       struct cm_plot_report *report)
{
	const size_t kept = history->spans < SPANS_MAX ? history->spans : SPANS_MAX;
	size_t events = history->events;
	const struct cm_span **order = calloc(history->spans + 1, sizeof(*order));
	struct cm_span *span = calloc(kept + 1, sizeof(*span));
	size_t i;

	if (!order || !span) {
		free(order);
		free(span);
		return -ENOMEM;
	}
	for (i = 0; i < history->spans; i++)
		order[i] = &history->span[i];
	qsort_r(order, history->spans, sizeof(const struct cm_span *), by_area, &events);
	qsort(order, kept, sizeof(const struct cm_span *), by_place);
	for (i = 0; i < kept; i++)
		span[i] = *order[i];
	put_spans(columns, history, span, kept);
	report->spans_summed += history->spans - kept;
	free(order);
	free(span);
	return 0;
}

static int put_segments(struct cm_columns *columns, const struct cm_history *history)
{
	struct cm_stretch *item;
	size_t count;
	int err;

	err = cm_stretches_find(history, &item, &count);
	if (err)
		return err;
	REALS("seg_addr", count, item[i].addr);
	REALS("seg_size", count, item[i].size);
	WORDS("seg_begin", count, item[i].begin);
	WORDS("seg_end", count, item[i].end);
	WORDS("seg_stack", count, stack_of(history->snapshot, item[i].stack));
	BYTES("seg_small", count, item[i].small);
	BYTES("seg_paged", count, item[i].paged);
	free(item);
	return 0;
}

static void put_events(struct cm_columns *columns, const struct cm_history *history)
{
	const struct cm_event *event = history->event;
	const size_t count = history->events;

	BYTES("event_action", count, event[i].action);
	REALS("event_addr", count, event[i].addr);
	REALS("event_size", count, event[i].size);
	WORDS("event_stack", count, stack_of(history->snapshot, event[i].stack));
	WORDS("event_thread", count, event[i].thread);
	WORDS("event_annotation", count, event[i].annotation);
	REALS("event_time", count, time_of(history, i));
}

static int put_sums(struct cm_columns *columns, const struct cm_history *history)
{
	struct cm_sum *sum;
	char name[32];
	size_t count;
	int err, m;

	err = cm_history_sum(history, &sum, &count);
	if (err)
		return err;
	WORDS("sum_stack", count, sum[i].stack);
	for (m = 0; m < CM_MEASURE_COUNT; m++) {
		(void)snprintf(name, sizeof(name), "%s_bytes", cm_measure_name((enum cm_measure)m));
		REALS(name, count, sum[i].bytes[m]);
		(void)snprintf(name, sizeof(name), "%s_count", cm_measure_name((enum cm_measure)m));
		WORDS(name, count, sum[i].count[m]);
	}
	free(sum);
	return 0;
}

static size_t class_of(uint64_t size)
{
	const size_t class = size ? 63 - (size_t)__builtin_clzll(size) : 0;

	return class < CLASSES ? class : CLASSES - 1;
}

/* One size class: requests, live blocks and their rounding, free blocks. */
struct size_class {
	uint64_t asked, asked_bytes, live, live_bytes, waste_bytes, free, free_bytes;
};

static void put_classes(struct cm_columns *columns, const struct cm_history *history)
{
	struct size_class class[CLASSES] = {0}, *at;
	const struct cm_block *block;
	size_t n, blocks;

	for (n = 0; n < history->events; n++) {
		if (history->event[n].action != CM_ACTION_ALLOC)
			continue;
		at = &class[class_of(history->event[n].size)];
		at->asked++;
		at->asked_bytes += history->event[n].size;
	}
	block = cm_device_blocks(history->snapshot, history->device, &blocks);
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
#define CLASS_COLUMN(field) REALS("class_" #field, CLASSES, class[i].field)
	CLASS_COLUMN(asked);
	CLASS_COLUMN(asked_bytes);
	CLASS_COLUMN(live);
	CLASS_COLUMN(live_bytes);
	CLASS_COLUMN(waste_bytes);
	CLASS_COLUMN(free);
	CLASS_COLUMN(free_bytes);
}

static int put_kind(struct cm_columns *columns, enum cm_plot plot, const struct cm_history *history,
		    struct cm_plot_report *report)
{
	int err = 0;

	if (plot == CM_PLOT_TIMELINE) {
		err = put_bins(columns, history);
		if (!err)
			err = put_largest(columns, history, report);
	} else if (plot == CM_PLOT_BLOCKS) {
		put_events(columns, history);
		put_spans(columns, history, history->span, history->spans);
		err = put_segments(columns, history);
	} else if (plot == CM_PLOT_FLAME) {
		err = put_sums(columns, history);
	} else {
		put_classes(columns, history);
	}
	return err;
}

/* The events that ran out of memory, which the page marks. */
static void put_marks(struct cm_json *json, const struct cm_history *history)
{
	size_t i, count = 0;

	cm_json_array(json, "ooms");
	for (i = 0; i < history->events && count < 1000; i++) {
		if (history->event[i].action != CM_ACTION_OOM)
			continue;
		cm_json_array(json, NULL);
		cm_json_unsigned(json, NULL, i);
		cm_json_unsigned(json, NULL, history->event[i].size);
		cm_json_end(json);
		count++;
	}
	cm_json_end(json);
}

static int put_device(struct cm_columns *columns, enum cm_plot plot,
		      const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		      struct cm_plot_report *report)
{
	struct cm_json *json = &columns->json;
	struct cm_history *history;
	int err;

	err = cm_history_create(snapshot, device, &history);
	if (err)
		return err;
	cm_json_object(json, NULL);
	cm_json_text(json, "name", cm_device_title(device).text);
	cm_json_unsigned(json, "total", device->row ? device->row->total_bytes : 0);
	cm_json_unsigned(json, "events", history->events);
	cm_json_unsigned(json, "lost", device->lost);
	cm_json_unsigned(json, "spans", history->spans);
	cm_json_unsigned(json, "allocated_at_start", history->start.allocated);
	cm_json_unsigned(json, "reserved_at_start", history->start.reserved);
	cm_json_number(json, "peak", history->peak == CM_BEFORE ? -1 : (int64_t)history->peak);
	put_marks(json, history);
	cm_json_array(json, "columns");
	err = put_kind(columns, plot, history, report);
	cm_json_end(json);
	cm_json_end(json);
	report->events += history->events;
	report->spans += history->spans;
	cm_history_destroy(history);
	return err;
}

/* The caller of the caller: useful where one function makes all allocations. "": there is none
 * up to main. */
static struct cm_function_text name_behind(const struct cm_snapshot *snapshot,
					   const struct cm_snap_stack *stack)
{
	const uint32_t at = cm_stack_next(snapshot, stack, cm_stack_caller_at(snapshot, stack));

	return at < stack->count ? cm_function_format(cm_stack_frame(snapshot, stack, at))
				 : (struct cm_function_text){""};
}

/* Each stack as reports print it, beginning with the frame that matters. */
static int put_lines(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	const struct cm_view view = {CM_BY_CALLER, CM_VIEW_DEPTH, false};
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
	cm_json_array(json, "behind");
	for (i = 0; i < snapshot->stacks; i++)
		cm_json_text(json, NULL, name_behind(snapshot, &snapshot->stack[i]).text);
	cm_json_end(json);
}

/* The texts of annotations, by their offset in the table of texts. */
static int put_texts(struct cm_json *json, const struct cm_snapshot *snapshot)
{
	const uint32_t bytes = snapshot->image->table[CM_TABLE_TEXT].count;
	uint8_t *used = calloc(bytes + (size_t)1, 1);
	char clean[TEXT_BYTES], key[16];
	size_t i;

	if (!used)
		return -ENOMEM;
	cm_json_object(json, "texts");
	for (i = 0; i < snapshot->events; i++) {
		const uint32_t id = snapshot->event[i].annotation;

		if (!id || id >= bytes || used[id]++)
			continue;
		cm_text_clean(clean, sizeof(clean),
			      cm_image_text(snapshot->image, CM_TABLE_TEXT, id));
		(void)snprintf(key, sizeof(key), "%u", id);
		cm_json_text(json, key, clean);
	}
	cm_json_end(json);
	free(used);
	return 0;
}

int cm_plot_collect(const struct cm_source *source, enum cm_plot plot, struct cm_columns *columns,
		    struct cm_plot_report *report)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	struct cm_json *json = &columns->json;
	const char *remark[CM_REMARKS_MAX];
	size_t remarks, i;
	int err;

	cm_json_object(json, NULL);
	cm_json_text(json, "kind", cm_plot_name(plot));
	cm_json_text(json, "program", source->comm);
	cm_json_text(json, "command", source->command);
	cm_json_number(json, "pid", source->pid);
	cm_json_text(json, "time", cm_time_format(snapshot->image->saved.time_ns).text);
	cm_json_text(json, "tool", CM_PROGRAM " " CM_VERSION);
	remarks = cm_saved_remark(&snapshot->image->saved, remark);
	cm_json_array(json, "remarks");
	for (i = 0; i < remarks; i++)
		cm_json_text(json, NULL, remark[i]);
	cm_json_end(json);
	put_stacks(json, snapshot);
	err = put_lines(json, snapshot);
	if (!err)
		err = put_texts(json, snapshot);
	cm_json_array(json, "devices");
	for (i = 0; i < snapshot->devices && !err; i++)
		if (cm_snap_device_is_used(snapshot, &snapshot->device[i]))
			err = put_device(columns, plot, snapshot, &snapshot->device[i], report);
	cm_json_end(json);
	cm_json_end(json);
	return err;
}
