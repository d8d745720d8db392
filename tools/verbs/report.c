/* SPDX-License-Identifier: MIT */
/*
 * `report`: what a snapshot says: budget, peak, stacks, temporary memory, out-of-memory events.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/summary.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/output/text.h"
#include "tools/plot/terminal.h"
#include "tools/processes/describe.h"
#include "tools/processes/source.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/groups.h"
#include "tools/verbs/verbs.h"

/* Memory is temporary if it is freed before so many other requests ... */
#define MOMENT_REQUESTS 8
#define MOMENT_LEAST    10 /* ... and a stack is listed from so many of them on */

static void print_size(const char *name, uint64_t bytes, uint64_t of)
{
	(void)printf("  %-30s %*s", name, cm_size_width(), cm_size_format((int64_t)bytes).text);
	if (of)
		(void)printf("  %5.1f%%", 100.0 * (double)bytes / (double)of);
	(void)putchar('\n');
}

/* What the process may have of the device, 0: there is no limit. */
static uint64_t limit_of(const struct cm_snap_device *device)
{
	return device->row && !device->outside ? device->row->allowed_bytes : 0;
}

/* The words of `ls` and `show`, for the same figures. */
static void print_budget(const struct cm_snap_device *device, const struct cm_figures *figures)
{
	const uint64_t whole = figures->reserved;

	print_size("allocated", figures->allocated, whole);
	if (device->row || figures->pending)
		print_size("cached, pending free", figures->pending, whole);
	if (device->row) {
		print_size("cached, releasable", figures->releasable, whole);
		print_size("cached, fragmented", figures->fragmented, whole);
	} else {
		print_size("cached", figures->fragmented + figures->releasable, whole);
	}
	print_size("reserved from the driver", whole, 0);
	if (limit_of(device))
		print_size("limit of the program", limit_of(device), 0);
	(void)putchar('\n');
	print_size("requested, of active blocks", figures->requested, 0);
	print_size("rounding, of active blocks", figures->rounding, 0);
	print_size("largest free block", figures->largest_free, 0);
	if (device->row && !device->outside)
		print_size("peak allocated",
			   (uint64_t)cm_summary_pool(device->row, CM_POOL_ALL).peak_allocated, 0);
}

static void print_peak(const struct cm_history *history)
{
	const struct cm_level *peak = cm_history_level(history, history->peak);
	struct cm_time_text time = {""};
	char reserved[CM_UNITS_BYTES + 16];

	if (!history->events)
		return;
	if (history->peak != CM_BEFORE)
		time = cm_time_format(cm_history_time(history, history->peak));
	(void)putchar('\n');
	(void)snprintf(reserved, sizeof(reserved), ", %s reserved",
		       cm_size_format((int64_t)peak->reserved).text);
	cm_line(stdout, "    ", "  peak during the events  %s requested%s, %s",
		cm_size_format((int64_t)peak->allocated).text,
		history->device->outside ? "" : reserved,
		history->peak == CM_BEFORE ? "before the first event" : time.text);
}

static int by_live(const void *a, const void *b)
{
	const struct cm_group *x = a, *y = b;

	return cm_sum_compare(&x->sum, &y->sum, CM_MEASURE_LIVE);
}

static int by_peak(const void *a, const void *b)
{
	const struct cm_group *x = a, *y = b;

	return cm_sum_compare(&x->sum, &y->sum, CM_MEASURE_PEAK);
}

static void sort_groups(struct cm_groups *groups, int (*order)(const void *, const void *))
{
	if (groups->count)
		qsort(groups->group, groups->count, sizeof(*groups->group), order);
}

static void print_groups(const struct cm_groups *groups, enum cm_measure measure, const char *title)
{
	uint64_t rest = 0, blocks = 0;
	size_t i, shown = 0, more = 0;
	int used;

	(void)printf("\n  %s, by %s\n", title, cm_by_name(groups->view.by));
	for (i = 0; i < groups->count; i++) {
		const struct cm_sum *sum = &groups->group[i].sum;

		if (!sum->count[measure])
			continue;
		if (shown++ < groups->view.rows) {
			used = printf("  %*s  %6" PRIu32 " %-6s  ", cm_size_width(),
				      cm_size_format((int64_t)sum->bytes[measure]).text,
				      sum->count[measure],
				      sum->count[measure] == 1 ? "block" : "blocks");
			cm_line_print(stdout, used > 0 ? (size_t)used : 0, groups->group[i].name,
				      groups->view.full);
			continue;
		}
		more++;
		rest += sum->bytes[measure];
		blocks += sum->count[measure];
	}
	if (more)
		(void)printf("  %*s  %6" PRIu64 " blocks  of %zu other %s\n", cm_size_width(),
			     cm_size_format((int64_t)rest).text, blocks, more,
			     more == 1 ? cm_by_name(groups->view.by)
				       : cm_by_names(groups->view.by));
	if (!shown)
		(void)printf("  nothing\n");
}

static int by_passing(const void *a, const void *b)
{
	const struct cm_group *x = a, *y = b;

	if (x->passing != y->passing)
		return x->passing > y->passing ? -1 : 1;
	return x->sum.stack < y->sum.stack ? -1 : x->sum.stack > y->sum.stack;
}

/* Counts the temporary memory of each group, for which a buffer of its own may be best. */
static int find_passing(const struct cm_history *history, struct cm_groups *groups)
{
	uint32_t *requests = calloc(history->events + 1, sizeof(*requests));
	struct cm_group *group;
	size_t i;

	if (!requests)
		return -ENOMEM;
	for (i = 0; i < history->events; i++)
		requests[i + 1] = requests[i] +
				  (history->event[i].action == CM_ACTION_ALLOC ? 1 : 0);
	for (i = 0; i < history->spans; i++) {
		const struct cm_span *span = &history->span[i];

		if (span->begin >= CM_NEVER || span->freed >= CM_NEVER ||
		    requests[span->freed] - requests[span->begin + 1] >= MOMENT_REQUESTS)
			continue;
		group = cm_group_of(groups, history->snapshot, span);
		if (!group)
			break;
		group->passing++;
		group->passing_bytes += span->size;
	}
	free(requests);
	return i < history->spans ? -ENOMEM : 0;
}

static void print_passing(const struct cm_groups *groups)
{
	size_t i;
	int used;

	for (i = 0; i < groups->count && i < groups->view.rows; i++) {
		const struct cm_group *group = &groups->group[i];

		if (group->passing < MOMENT_LEAST)
			break;
		if (!i)
			(void)printf(
				"\n  temporary: freed before %d other requests; average size\n",
				MOMENT_REQUESTS);
		used = printf("  %*s  %6" PRIu32 " times   ", cm_size_width(),
			      cm_size_format((int64_t)(group->passing_bytes / group->passing)).text,
			      group->passing);
		cm_line_print(stdout, used > 0 ? (size_t)used : 0, group->name, groups->view.full);
	}
}

/* Indented as the sizes of the rows above. */
static void print_place(const struct cm_snapshot *snapshot, uint32_t stack,
			const struct cm_view *view)
{
	char *line = cm_stack_spell(snapshot, cm_snapshot_stack(snapshot, stack), view);
	const int used = printf("  %*s  at ", cm_size_width(), "");

	cm_line_print(stdout, used > 0 ? (size_t)used : 0, line ? line : "?", view->full);
	free(line);
}

/* With the limit, as memory may be out although the device has plenty of it. */
static void print_ooms_title(const struct cm_snap_device *device)
{
	(void)printf("\n  out of memory");
	if (limit_of(device))
		(void)printf("; the program may have %s",
			     cm_size_format((int64_t)limit_of(device)).text);
	(void)putchar('\n');
}

static void print_ooms(const struct cm_history *history, const struct cm_view *view)
{
	size_t i, shown = 0;
	bool unknown;

	for (i = 0; i < history->events; i++) {
		const struct cm_event *event = &history->event[i];

		if (event->action != CM_ACTION_OOM)
			continue;
		if (!shown++)
			print_ooms_title(history->device);
		if (shown > view->rows)
			continue;
		unknown = event->addr == CM_FREE_UNKNOWN;
		(void)printf("  %*s  requested, %s free%s\n", cm_size_width(),
			     cm_size_format((int64_t)event->size).text,
			     unknown ? "unknown amount" : cm_size_format((int64_t)event->addr).text,
			     unknown ? "" : " on the device");
		print_place(history->snapshot, event->stack, view);
	}
	if (shown > view->rows)
		(void)printf("  and %zu more\n", shown - (size_t)view->rows);
}

/* The rows of a measure; CM_MEASURE_COUNT: temporary memory. */
static void put_json_groups(struct cm_json *json, const char *key,
			    const struct cm_snapshot *snapshot, const struct cm_groups *groups,
			    enum cm_measure measure)
{
	const bool passing = measure == CM_MEASURE_COUNT;
	size_t i;

	cm_json_array(json, key);
	for (i = 0; i < groups->count; i++) {
		const struct cm_group *group = &groups->group[i];
		const struct cm_snap_stack *stack = &snapshot->stack[group->sum.stack];

		if (passing ? group->passing < MOMENT_LEAST : !group->sum.count[measure])
			continue;
		cm_json_object(json, NULL);
		cm_json_unsigned(json, "bytes",
				 passing ? group->passing_bytes : group->sum.bytes[measure]);
		cm_json_unsigned(json, "blocks",
				 passing ? group->passing : group->sum.count[measure]);
		cm_json_text(json, "caller", cm_stack_caller(snapshot, stack)->function);
		if (groups->view.by == CM_BY_STACK)
			cm_stack_json(json, snapshot, stack);
		else if (groups->view.by == CM_BY_SIZE)
			cm_json_unsigned(json, "size_bytes", group->size);
		else
			cm_json_text(json, cm_by_name(groups->view.by), group->name);
		cm_json_end(json);
	}
	cm_json_end(json);
}

static void put_json_ooms(struct cm_json *json, const struct cm_history *history)
{
	const struct cm_snapshot *snapshot = history->snapshot;
	size_t i;

	cm_json_array(json, "out_of_memory");
	for (i = 0; i < history->events; i++) {
		const struct cm_event *event = &history->event[i];

		if (event->action != CM_ACTION_OOM)
			continue;
		cm_json_object(json, NULL);
		cm_json_unsigned(json, "time_ns", cm_image_time(snapshot->image, event->tick));
		cm_json_unsigned(json, "requested_bytes", event->size);
		if (event->addr == CM_FREE_UNKNOWN)
			cm_json_null(json, "device_free_bytes");
		else
			cm_json_unsigned(json, "device_free_bytes", event->addr);
		cm_stack_json(json, snapshot, cm_snapshot_stack(snapshot, event->stack));
		cm_json_end(json);
	}
	cm_json_end(json);
}

/* The counters that `ls` prints; pinned memory has no peak of what is reserved. */
static void put_json_peaks(struct cm_json *json, const struct cm_snap_device *device)
{
	struct cm_summary sum;

	if (!device->row || device->outside)
		return;
	sum = cm_summary_pool(device->row, CM_POOL_ALL);
	cm_json_number(json, "peak_allocated_bytes", sum.peak_allocated);
	cm_json_number(json, "peak_reserved_bytes", sum.peak_reserved);
}

static void put_json(struct cm_json *json, const struct cm_history *history,
		     const struct cm_figures *figures, struct cm_groups *groups)
{
	const struct cm_snapshot *snapshot = history->snapshot;
	const struct cm_snap_device *device = history->device;
	const struct cm_level *peak = cm_history_level(history, history->peak);

	cm_json_object(json, NULL);
	cm_json_text(json, "name", cm_device_title(device).text);
	if (device->row)
		cm_json_number(json, "gpu", device->ordinal);
	else
		cm_json_null(json, "gpu");
	if (device->row)
		cm_json_device(json, device->row);
	cm_json_bool(json, "outside_the_cache", device->outside);
	cm_json_unsigned(json, "allocated_bytes", figures->allocated);
	cm_json_unsigned(json, "requested_bytes", figures->requested);
	cm_json_unsigned(json, "rounding_bytes", figures->rounding);
	cm_json_unsigned(json, "reserved_bytes", figures->reserved);
	/* Outside the cache nothing is reserved. */
	cm_json_unsigned(json, "cached_bytes",
			 device->outside ? 0 : figures->reserved - figures->allocated);
	cm_json_unsigned(json, "pending_free_bytes", figures->pending);
	cm_json_unsigned(json, "fragmented_bytes", figures->fragmented);
	cm_json_unsigned(json, "releasable_bytes", figures->releasable);
	cm_json_unsigned(json, "largest_free_bytes", figures->largest_free);
	put_json_peaks(json, device);
	cm_json_unsigned(json, "blocks", figures->blocks);
	cm_json_unsigned(json, "segments", figures->segments);
	cm_json_unsigned(json, "events", history->events);
	cm_json_unsigned(json, "events_lost", device->lost);
	cm_json_object(json, "peak_of_events");
	cm_json_unsigned(json, "requested_bytes", peak->allocated);
	cm_json_unsigned(json, "reserved_bytes", peak->reserved);
	cm_json_end(json);
	put_json_groups(json, "stacks_allocated", snapshot, groups, CM_MEASURE_LIVE);
	sort_groups(groups, by_peak);
	put_json_groups(json, "stacks_at_peak", snapshot, groups, CM_MEASURE_PEAK);
	sort_groups(groups, by_passing);
	put_json_groups(json, "stacks_temporary", snapshot, groups, CM_MEASURE_COUNT);
	put_json_ooms(json, history);
	cm_json_end(json);
}

static void print_outside(const struct cm_history *history)
{
	const struct cm_snap_device *device = history->device;
	uint32_t i;

	(void)putchar('\n');
	cm_line(stdout, "    ", "%s   events: %s", cm_device_title(device).text,
		cm_count_format((int64_t)history->events).text);
	for (i = 0; i < CM_UNCACHED_COUNT; i++)
		if (device->row->other_bytes[i].current > 0)
			print_size(cm_uncached_name(i),
				   (uint64_t)device->row->other_bytes[i].current, 0);
}

static void print_head_of(const struct cm_history *history, const struct cm_figures *figures)
{
	const struct cm_snap_device *device = history->device;
	char lost[CM_UNITS_BYTES + 24] = "";

	if (device->lost)
		(void)snprintf(lost, sizeof(lost), " (%s older ones lost)",
			       cm_count_format((int64_t)device->lost).text);
	(void)putchar('\n');
	cm_line(stdout, "    ", "%s   blocks: %" PRIu64 "   segments: %" PRIu64 "   events: %s%s",
		cm_device_title(device).text, figures->blocks, figures->segments,
		cm_count_format((int64_t)history->events).text, lost);
	print_budget(device, figures);
}

static void print_device(const struct cm_history *history, const struct cm_figures *figures,
			 struct cm_groups *groups)
{
	if (history->device->outside)
		print_outside(history);
	else
		print_head_of(history, figures);
	print_peak(history);
	print_groups(groups, CM_MEASURE_LIVE, "allocated now");
	if (history->peak != CM_BEFORE) {
		sort_groups(groups, by_peak);
		print_groups(groups, CM_MEASURE_PEAK, "allocated at the peak");
	}
	sort_groups(groups, by_passing);
	print_passing(groups);
	print_ooms(history, &groups->view);
}

static int report_device(const struct cm_options *options, const struct cm_snapshot *snapshot,
			 const struct cm_snap_device *device, const struct cm_view *view,
			 struct cm_json *json)
{
	struct cm_figures figures;
	struct cm_history *history;
	struct cm_groups groups;
	int err;

	err = cm_history_create(snapshot, device, &history);
	if (err)
		return err;
	cm_figures_get(snapshot, device, &figures);
	err = cm_groups_create(history, view, &groups);
	if (err)
		goto err_history;
	err = find_passing(history, &groups);
	sort_groups(&groups, by_live);
	if (!err && json)
		put_json(json, history, &figures, &groups);
	else if (!err)
		print_device(history, &figures, &groups);
	if (!err && !json && options->timeline)
		err = cm_terminal_draw(history, cm_line_width(stdout), view->rows, options->ascii,
				       stdout);
	cm_groups_fini(&groups);
err_history:
	cm_history_destroy(history);
	return err;
}

static void print_head(const struct cm_source *source)
{
	const struct cm_saved *saved = &source->image->saved;
	const char *remarks[CM_REMARKS_MAX];
	char text[160] = "";
	size_t count, i, used = 0;

	cm_line(stdout, "    ", "pid %d  %s  %s", (int)source->pid, source->user, source->command);
	count = cm_saved_remark(saved, remarks);
	for (i = 0; i < count && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, ", %s", remarks[i]);
	cm_line(stdout, "    ", "taken %s%s", cm_time_format(saved->time_ns).text, text);
}

static void put_head(struct cm_json *json, const struct cm_source *source)
{
	static const char *const reasons[CM_REASON_COUNT] = {
		[CM_REASON_ASKED] = "asked",
		[CM_REASON_OOM] = "oom",
		[CM_REASON_PEAK] = "peak",
		[CM_REASON_EXIT] = "exit",
	};
	const struct cm_saved *saved = &source->image->saved;

	cm_json_number(json, "pid", source->pid);
	cm_json_text(json, "command", source->command);
	cm_json_unsigned(json, "taken_ns", saved->time_ns);
	cm_json_text(json, "reason",
		     saved->reason < CM_REASON_COUNT ? reasons[saved->reason] : "unknown");
	cm_json_text(json, "state",
		     saved->life < CM_LIFE_COUNT ? cm_life_name((enum cm_life)saved->life)
						 : "unknown");
	cm_json_bool(json, "of_one_moment", saved->moment != CM_MOMENT_TORN);
}

/* What was not recorded, where the user asked for it, and how to have it. */
static void print_missing(const struct cm_options *options, const struct cm_source *source)
{
	const struct cm_snapshot *snapshot = source->snapshot;
	const struct cm_snap_device *device;
	const bool runs = source->image->saved.life == CM_LIFE_RUNNING && !options->region &&
			  !cm_is_file_name(options->args[0]);
	uint64_t events = 0;
	size_t i;

	if (snapshot->stacks == 1 && snapshot->blocks) {
		(void)putchar('\n');
		if (runs)
			cm_line(stdout, "  ",
				"No stacks were recorded. From now on: "
				"cudamemstat history start %d",
				(int)source->pid);
		else
			cm_line(stdout, "  ",
				"No stacks were recorded. Next time: cudamemstat run --stacks");
	}
	for (i = 0; (device = cm_snapshot_device(snapshot, i)); i++)
		events += device->events;
	if (options->timeline && !events) {
		(void)putchar('\n');
		cm_line(stdout, "  ", "There are no events, so --graph has nothing to draw.");
	}
}

int cm_verb_report(const struct cm_options *options)
{
	struct cm_view view = cm_view_of(options);
	const struct cm_snap_device *device;
	struct cm_source source;
	struct cm_json json, *to = NULL;
	int exit, err = 0;
	size_t i;

	exit = cm_source_open(options, options->args[0], &source);
	if (exit)
		return exit;
	if (options->form == CM_FORM_JSON) {
		to = &json;
		cm_json_open_document(to, "report");
		put_head(to, &source);
		/* Rows have all frames unless they stand for something else. */
		if (view.by == CM_BY_CALLER)
			view.by = CM_BY_STACK;
		cm_json_array(to, "devices");
	} else {
		print_head(&source);
	}
	for (i = 0; (device = cm_snapshot_device(source.snapshot, i)) && !err; i++)
		if (cm_snap_device_is_used(source.snapshot, device))
			err = report_device(options, source.snapshot, device, &view, to);
	if (!to && !err)
		print_missing(options, &source);
	cm_json_close_array(to);
	cm_source_close(&source);
	if (!err)
		return CM_EXIT_OK;
	return cm_fail(CM_EXIT_TARGET, "%s", strerror(-err));
}
