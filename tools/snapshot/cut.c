/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/cut.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "tools/output/reserve.h"
#include "tools/snapshot/completions.h"
#include "tools/snapshot/history.h"

void cm_snapshot_times(const struct cm_snapshot *snapshot, uint64_t *ret_first_ns,
		       uint64_t *ret_last_ns)
{
	const uint64_t saved = snapshot->image->saved.time_ns;
	uint64_t first = 0, last = 0, latest = 0, time;
	size_t i;

	for (i = 0; i < snapshot->events; i++) {
		time = cm_image_time(snapshot->image, snapshot->event[i].tick);
		first = !i || time < first ? time : first;
		latest = time > latest ? time : latest;
		last = time > last && time <= saved ? time : last;
	}
	*ret_first_ns = first;
	/* If a clock was put back, all of them are later than the snapshot. */
	*ret_last_ns = last ? last : latest;
}

static uint64_t drop_old(const struct cm_snapshot *snapshot, struct cm_snap_device *device,
			 const struct cm_cut *cut)
{
	size_t drop = 0;

	if (cut->last && device->events > cut->last)
		drop = device->events - cut->last;
	while (cut->since_ns && drop < device->events &&
	       cm_image_time(snapshot->image, snapshot->event[device->first_event + drop].tick) <
		       cut->since_ns)
		drop++;
	device->first_event += drop;
	device->events -= drop;
	return drop;
}

static bool is_small(const struct cm_event *event, uint64_t min_size_bytes)
{
	return event->size < min_size_bytes && cm_event_is_of_block(event);
}

static uint64_t drop_small(struct cm_snapshot *snapshot, struct cm_snap_device *device,
			   const struct cm_cut *cut)
{
	struct cm_event *event = snapshot->event + device->first_event;
	size_t i, kept = 0, dropped;

	for (i = 0; i < device->events; i++)
		if (!is_small(&event[i], cut->min_size_bytes))
			event[kept++] = event[i];
	dropped = device->events - kept;
	device->events = kept;
	return dropped;
}

static uint64_t count_small(const struct cm_snapshot *snapshot, uint64_t min_size_bytes)
{
	uint64_t count = 0;
	size_t i;

	for (i = 0; i < snapshot->blocks; i++)
		count += snapshot->block[i].state == CM_BLOCK_LIVE &&
			 snapshot->block[i].requested < min_size_bytes;
	return count;
}

/* The most bytes that a stack holds on a device: now, at the peak, or requested in all. */
struct weight {
	uint64_t bytes[CM_MEASURE_COUNT];
	uint32_t stack;
};

static int weigh(void *data, const struct cm_snap_device *device, const struct cm_sum *sums,
		 size_t count)
{
	struct weight *weight = data;
	size_t i;
	int m;

	(void)device;
	for (i = 0; i < count; i++)
		for (m = 0; m < CM_MEASURE_COUNT; m++)
			weight[sums[i].stack].bytes[m] += sums[i].bytes[m];
	return 0;
}

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;
	const uint64_t p = x->bytes[CM_MEASURE_LIVE] > x->bytes[CM_MEASURE_PEAK]
				   ? x->bytes[CM_MEASURE_LIVE]
				   : x->bytes[CM_MEASURE_PEAK];
	const uint64_t q = y->bytes[CM_MEASURE_LIVE] > y->bytes[CM_MEASURE_PEAK]
				   ? y->bytes[CM_MEASURE_LIVE]
				   : y->bytes[CM_MEASURE_PEAK];

	if (p != q)
		return p > q ? -1 : 1;
	if (x->bytes[CM_MEASURE_ALLOCATED] != y->bytes[CM_MEASURE_ALLOCATED])
		return x->bytes[CM_MEASURE_ALLOCATED] > y->bytes[CM_MEASURE_ALLOCATED] ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Adds a stack of one frame with this name. Its index, or 0: not enough memory. */
static uint32_t add_stack(struct cm_snapshot *snapshot, const char *name)
{
	const uint32_t text = cm_intern_text(&snapshot->texts, name);
	size_t frames = snapshot->frames, list = snapshot->frame_list_count;
	size_t stacks = snapshot->stacks;

	if (text == CM_INTERN_NONE || !cm_reserve(&snapshot->frame, &frames, frames + 1) ||
	    !cm_reserve(&snapshot->frame_list, &list, list + 1) ||
	    !cm_reserve(&snapshot->stack, &stacks, stacks + 1))
		return 0;
	snapshot->frame[snapshot->frames] = (struct cm_snap_frame){
		.function = cm_intern_bytes(&snapshot->texts, text, NULL),
		.file = "??",
		.module = ""};
	snapshot->frame_list[snapshot->frame_list_count] = (uint32_t)snapshot->frames++;
	snapshot->stack[snapshot->stacks] = (struct cm_snap_stack){
		0, (uint32_t)snapshot->frame_list_count++, 1};
	return (uint32_t)snapshot->stacks++;
}

/* The `keep` stacks with most bytes stay; the others, `weight` from there on, become one. */
static int merge(struct cm_snapshot *snapshot, const struct weight *weight, uint64_t keep,
		 uint64_t *ret_count)
{
	const uint32_t words = snapshot->image->table[CM_TABLE_STACK].count;
	const size_t stacks = snapshot->stacks;
	bool *goes = calloc(stacks, sizeof(*goes));
	char name[64];
	uint32_t other, i;
	size_t n;

	if (!goes)
		return -ENOMEM;
	*ret_count = 0;
	for (n = keep; n < stacks; n++)
		if (weight[n].stack && weight[n].bytes[CM_MEASURE_ALLOCATED] +
					       weight[n].bytes[CM_MEASURE_LIVE] +
					       weight[n].bytes[CM_MEASURE_PEAK]) {
			goes[weight[n].stack] = true;
			++*ret_count;
		}
	(void)snprintf(name, sizeof(name), "(%llu other stacks)", (unsigned long long)*ret_count);
	other = *ret_count ? add_stack(snapshot, name) : 0;
	for (i = 0; i < words && other; i++)
		if (snapshot->stack_at[i] < stacks && goes[snapshot->stack_at[i]])
			snapshot->stack_at[i] = other;
	free(goes);
	return *ret_count && !other ? -ENOMEM : 0;
}

static int merge_stacks(struct cm_snapshot *snapshot, uint64_t keep, uint64_t *ret_count)
{
	struct weight *weight = calloc(snapshot->stacks, sizeof(*weight));
	size_t i;
	int err;

	if (!weight)
		return -ENOMEM;
	for (i = 0; i < snapshot->stacks; i++)
		weight[i].stack = (uint32_t)i;
	err = cm_sums_each(snapshot, weigh, weight);
	if (!err) {
		qsort(weight, snapshot->stacks, sizeof(*weight), by_weight);
		err = merge(snapshot, weight, keep, ret_count);
	}
	free(weight);
	return err;
}

int cm_snapshot_cut(struct cm_snapshot *snapshot, const struct cm_cut *cut,
		    struct cm_cut_report *ret_report)
{
	struct cm_cut_report report = {0};
	size_t i;
	int err = 0;

	for (i = 0; i < snapshot->devices + snapshot->outsides; i++) {
		struct cm_snap_device *device = i < snapshot->devices
							? &snapshot->device[i]
							: &snapshot->outside[i - snapshot->devices];

		report.old_events += drop_old(snapshot, device, cut);
		if (cut->min_size_bytes)
			report.small_events += drop_small(snapshot, device, cut);
	}
	if (cut->min_size_bytes) {
		report.small_blocks = count_small(snapshot, cut->min_size_bytes);
		snapshot->min_size_bytes = cut->min_size_bytes;
	}
	if (cut->stacks && cut->stacks < snapshot->stacks)
		err = merge_stacks(snapshot, cut->stacks, &report.stacks);
	if (!err)
		*ret_report = report;
	return err;
}
