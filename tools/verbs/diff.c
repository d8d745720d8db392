/* SPDX-License-Identifier: MIT */
/*
 * `diff`: compares two snapshots by device, and by stack or what else --by says.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/reserve.h"
#include "tools/output/size.h"
#include "tools/processes/describe.h"
#include "tools/processes/source.h"
#include "tools/snapshot/figures.h"
#include "tools/snapshot/groups.h"
#include "tools/verbs/verbs.h"

#define TOP_ROWS 20 /* unless --top says otherwise */

/* What the counters of memory outside the cache have, but no event that is left. */
#define NO_EVENT "(no event recorded)"

/* What holds memory in the first and in the second snapshot. */
struct change {
	uint64_t bytes[2];
	uint64_t blocks[2];
	uint64_t size; /* of its allocations, in bytes; by size only */
	const char *name;
};

/* Rows of two files are equal if their names are. */
struct changes {
	struct cm_view view;
	struct cm_intern keys;
	struct change *item;
	size_t room;
	size_t rows;       /* to show */
	bool lacks_events; /* of memory outside the cache, on one side at least */
};

static struct change *find_change(struct changes *changes, const char *name)
{
	const uint32_t number = cm_intern_text(&changes->keys, name);

	if (number == CM_INTERN_NONE ||
	    !cm_reserve(&changes->item, &changes->room, number + (size_t)1))
		return NULL;
	changes->item[number].name = cm_intern_bytes(&changes->keys, number, NULL);
	return &changes->item[number];
}

/* Of memory outside the cache there are no blocks: what has lost its event is counted alone. */
static int add_lost(struct changes *changes, const struct cm_figures *figures, int side)
{
	uint64_t bytes = figures->allocated, blocks = figures->blocks;
	struct change *change;
	size_t i;

	for (i = 0; i < changes->keys.count; i++) {
		bytes -= changes->item[i].bytes[side];
		blocks -= changes->item[i].blocks[side];
	}
	if ((int64_t)bytes <= 0)
		return 0;
	change = find_change(changes, NO_EVENT);
	if (!change)
		return -ENOMEM;
	change->bytes[side] = bytes;
	change->blocks[side] = blocks;
	changes->lacks_events = true;
	return 0;
}

/* Adds the live blocks of one device of the first (0) or second (1) snapshot. */
static int add_side(struct changes *changes, const struct cm_snapshot *snapshot,
		    const struct cm_snap_device *device, const struct cm_figures *figures, int side)
{
	struct cm_history *history;
	struct cm_groups groups;
	struct change *change;
	size_t i;
	int err;

	err = cm_history_create(snapshot, device, &history);
	if (err)
		return err;
	err = cm_groups_create(history, &changes->view, &groups);
	if (err)
		goto err_history;
	for (i = 0; i < groups.count && !err; i++) {
		if (!groups.group[i].sum.count[CM_MEASURE_LIVE])
			continue;
		change = find_change(changes, groups.group[i].name);
		if (change) {
			change->bytes[side] += groups.group[i].sum.bytes[CM_MEASURE_LIVE];
			change->blocks[side] += groups.group[i].sum.count[CM_MEASURE_LIVE];
			change->size = groups.group[i].size;
		} else {
			err = -ENOMEM;
		}
	}
	if (!err && device->outside)
		err = add_lost(changes, figures, side);
	cm_groups_fini(&groups);
err_history:
	cm_history_destroy(history);
	return err;
}

static int64_t change_of(const uint64_t value[2])
{
	return (int64_t)(value[1] - value[0]);
}

static int by_change(const void *a, const void *b)
{
	const int64_t x = llabs(change_of(((const struct change *)a)->bytes));
	const int64_t y = llabs(change_of(((const struct change *)b)->bytes));

	return x > y ? -1 : x < y;
}

static bool is_changed(const struct change *change)
{
	return change_of(change->bytes) || change_of(change->blocks);
}

/*
 * Does the device differ? Memory whose event was lost on one side only stands in another row there:
 * then the counters decide, and if they are equal, no row is shown.
 */
static bool judge(const struct cm_snap_device *device, const struct cm_figures figures[2],
		  struct changes *changes)
{
	bool changed = figures[0].reserved != figures[1].reserved;
	size_t i;

	if (device->outside)
		changed |= figures[0].allocated != figures[1].allocated ||
			   figures[0].blocks != figures[1].blocks;
	changes->rows = changed || !changes->lacks_events ? changes->keys.count : 0;
	for (i = 0; i < changes->rows; i++)
		changed |= is_changed(&changes->item[i]);
	return changed;
}

static struct cm_units_text spell(int64_t number, bool bytes)
{
	return bytes ? cm_size_format(number) : cm_count_format(number);
}

/* A change with its sign; "-" if there is none. */
static struct cm_units_text spell_change(int64_t change, bool bytes)
{
	struct cm_units_text to;

	(void)snprintf(to.text, sizeof(to.text), "%s%.*s", change > 0 ? "+" : "",
		       CM_UNITS_BYTES - 2, change ? spell(change, bytes).text : "-");
	return to;
}

static void print_figure(const char *name, uint64_t a, uint64_t b, bool bytes)
{
	const int width = cm_size_width();

	(void)printf("  %-18s %*s %*s %*s\n", name, width, spell((int64_t)a, bytes).text, width,
		     spell((int64_t)b, bytes).text, width,
		     spell_change((int64_t)(b - a), bytes).text);
}

static void print_figures(const struct cm_figures figures[2], bool outside)
{
	const struct cm_figures *a = &figures[0], *b = &figures[1];

	print_figure("allocated", a->allocated, b->allocated, true);
	if (!outside) {
		print_figure("reserved", a->reserved, b->reserved, true);
		print_figure("pending free", a->pending, b->pending, true);
		print_figure("largest free block", a->largest_free, b->largest_free, true);
	}
	print_figure("blocks", a->blocks, b->blocks, false);
	if (!outside)
		print_figure("segments", a->segments, b->segments, false);
}

static void print_changes(struct changes *changes)
{
	const size_t count = changes->rows;
	size_t i, shown = 0, more = 0;
	int64_t rest = 0;
	int used;

	if (count)
		qsort(changes->item, count, sizeof(*changes->item), by_change);
	for (i = 0; i < count; i++) {
		const struct change *change = &changes->item[i];

		if (!is_changed(change))
			continue;
		if (!shown++)
			(void)printf("\n  %*s  %8s  by %s\n", cm_size_width() + 1, "CHANGE",
				     "BLOCKS", cm_by_name(changes->view.by));
		if (shown > changes->view.rows) {
			more++;
			rest += change_of(change->bytes);
			continue;
		}
		used = printf("  %*s  %+8" PRId64 "  ", cm_size_width() + 1,
			      spell_change(change_of(change->bytes), true).text,
			      change_of(change->blocks));
		cm_line_print(stdout, used > 0 ? (size_t)used : 0, change->name,
			      changes->view.full);
	}
	if (more)
		(void)printf("  %*s  of %zu other %s\n", cm_size_width() + 1,
			     spell_change(rest, true).text, more,
			     more == 1 ? cm_by_name(changes->view.by)
				       : cm_by_names(changes->view.by));
}

static void put_json(struct cm_json *json, const struct cm_snap_device *device,
		     const struct cm_figures figures[2], const struct changes *changes)
{
	static const char *const sides[2] = {"before", "after"};
	size_t i;

	cm_json_object(json, NULL);
	cm_json_text(json, "name", cm_device_title(device).text);
	for (i = 0; i < 2; i++) {
		cm_json_object(json, sides[i]);
		cm_json_unsigned(json, "allocated_bytes", figures[i].allocated);
		cm_json_unsigned(json, "requested_bytes", figures[i].requested);
		cm_json_unsigned(json, "pending_free_bytes", figures[i].pending);
		cm_json_unsigned(json, "reserved_bytes", figures[i].reserved);
		cm_json_unsigned(json, "largest_free_bytes", figures[i].largest_free);
		cm_json_unsigned(json, "blocks", figures[i].blocks);
		cm_json_end(json);
	}
	cm_json_array(json, "changes");
	for (i = 0; i < changes->rows; i++) {
		const struct change *change = &changes->item[i];

		if (!is_changed(change))
			continue;
		cm_json_object(json, NULL);
		cm_json_number(json, "bytes", change_of(change->bytes));
		cm_json_number(json, "blocks", change_of(change->blocks));
		if (changes->view.by == CM_BY_SIZE)
			cm_json_unsigned(json, "size_bytes", change->size);
		else
			cm_json_text(json,
				     changes->view.by == CM_BY_CALLER
					     ? "stack"
					     : cm_by_name(changes->view.by),
				     change->name);
		cm_json_end(json);
	}
	cm_json_end(json);
	cm_json_end(json);
}

static const struct cm_snap_device *find_device(const struct cm_snapshot *snapshot,
						const struct cm_snap_device *like)
{
	const struct cm_snap_device *device;
	size_t i;

	for (i = 0; (device = cm_snapshot_device(snapshot, i)); i++)
		if (device->ordinal == like->ordinal && !device->row == !like->row &&
		    device->outside == like->outside)
			return device;
	return NULL;
}

/* Compares one device; one of the two may be NULL. Sets *ret_changed if it differs. */
static int diff_device(const struct cm_snapshot *snapshots[2],
		       const struct cm_snap_device *devices[2], const struct cm_view *view,
		       struct cm_json *json, bool *ret_changed)
{
	const struct cm_snap_device *any = devices[0] ? devices[0] : devices[1];
	struct cm_figures figures[2] = {0};
	struct changes changes = {.view = *view};
	int err = 0, side;

	cm_intern_init(&changes.keys);
	for (side = 0; side < 2 && !err; side++) {
		if (!devices[side])
			continue;
		cm_figures_get(snapshots[side], devices[side], &figures[side]);
		err = add_side(&changes, snapshots[side], devices[side], &figures[side], side);
	}
	if (!err)
		*ret_changed |= judge(any, figures, &changes);
	if (!err && json) {
		put_json(json, any, figures, &changes);
	} else if (!err) {
		(void)putchar('\n');
		cm_line(stdout, "    ", "%s", cm_device_title(any).text);
		(void)printf("  %-18s %*s %*s %*s\n", "", cm_size_width(), "first", cm_size_width(),
			     "second", cm_size_width(), "change");
		print_figures(figures, any->outside);
		print_changes(&changes);
	}
	cm_intern_fini(&changes.keys);
	free(changes.item);
	return err;
}

static bool is_used(const struct cm_snapshot *snapshot, const struct cm_snap_device *device)
{
	return device && cm_snap_device_is_used(snapshot, device);
}

static int diff_all(const struct cm_snapshot *snapshots[2], const struct cm_view *view,
		    struct cm_json *json, bool *ret_changed)
{
	const struct cm_snap_device *devices[2];
	int err = 0;
	size_t i;

	for (i = 0; (devices[0] = cm_snapshot_device(snapshots[0], i)) && !err; i++) {
		devices[1] = find_device(snapshots[1], devices[0]);
		if (is_used(snapshots[0], devices[0]) || is_used(snapshots[1], devices[1]))
			err = diff_device(snapshots, devices, view, json, ret_changed);
	}
	devices[0] = NULL;
	for (i = 0; (devices[1] = cm_snapshot_device(snapshots[1], i)) && !err; i++) {
		if (!find_device(snapshots[0], devices[1]) && is_used(snapshots[1], devices[1]))
			err = diff_device(snapshots, devices, view, json, ret_changed);
	}
	return err;
}

static void print_names(const struct cm_options *options)
{
	cm_line(stdout, "        ", "first:  %s", options->args[0]);
	cm_line(stdout, "        ", "second: %s", options->args[1]);
}

int cm_verb_diff(const struct cm_options *options)
{
	const struct cm_snapshot *snapshots[2];
	struct cm_view view = cm_view_of(options);
	struct cm_source first, second;
	struct cm_json json, *to;
	bool changed = false;
	int exit, err;

	if (!options->top)
		view.rows = TOP_ROWS;
	else if (options->form == CM_FORM_JSON)
		return cm_fail(CM_EXIT_USAGE, "--json prints all changes; leave out --top");
	exit = cm_source_open(options, options->args[0], &first);
	if (exit)
		return exit;
	exit = cm_source_open(options, options->args[1], &second);
	if (exit) {
		cm_source_close(&first);
		return exit;
	}
	snapshots[0] = first.snapshot;
	snapshots[1] = second.snapshot;
	to = cm_json_open_array(options, &json, "diff", "devices");
	if (!to)
		print_names(options);
	err = diff_all(snapshots, &view, to, &changed);
	cm_json_close_array(to);
	cm_source_close(&first);
	cm_source_close(&second);
	if (err)
		return cm_fail(CM_EXIT_TARGET, "%s", strerror(-err));
	return changed ? CM_EXIT_NO : CM_EXIT_OK;
}
