/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/history.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tools/output/reserve.h"
#include "tools/snapshot/completions.h"

/* A history under construction. */
struct building {
	struct cm_history *history;
	uint32_t *order; /* events by address, then by time */
	size_t ordered;
	size_t room; /* for spans */
};

static struct cm_span *add_span(struct building *building, uint64_t addr)
{
	struct cm_history *history = building->history;
	struct cm_span *span;

	if (!cm_reserve(&history->span, &building->room, history->spans + 1))
		return NULL;
	span = &history->span[history->spans++];
	*span = (struct cm_span){
		.addr = addr, .begin = CM_BEFORE, .freed = CM_NEVER, .ready = CM_NEVER};
	return span;
}

/*
 * Takes what an event says about the allocation. Unless frees have stacks of their own, a free has
 * the stack of its allocation; its thread and annotation are always those of the free.
 */
static void describe_span(const struct building *building, const struct cm_event *event,
			  struct cm_span *span)
{
	const uint32_t context = building->history->snapshot->image->header.record.context;

	span->size = event->size;
	if (event->action == CM_ACTION_ALLOC) {
		span->thread = event->thread;
		span->annotation = event->annotation;
	}
	if (event->action == CM_ACTION_ALLOC || context == CM_CONTEXT_STATE ||
	    context == CM_CONTEXT_ALLOC)
		span->stack = event->stack;
}

/* Follows one event of an address, whose open span is number *open, or SIZE_MAX. False: not enough
 * memory. */
static bool follow(struct building *building, const struct cm_event *event, uint32_t number,
		   size_t *open)
{
	struct cm_span *span = *open == SIZE_MAX ? NULL : &building->history->span[*open];

	if (event->action == CM_ACTION_ALLOC && span) {
		/* The events of its end were lost; it ended before this one. */
		if (span->freed == CM_NEVER)
			span->freed = number;
		span->ready = number;
		span = NULL;
	}
	if (!span || (event->action == CM_ACTION_FREE_REQUESTED && span->freed != CM_NEVER)) {
		span = add_span(building, event->addr);
		if (!span)
			return false;
		*open = building->history->spans - 1;
		describe_span(building, event, span);
	}
	if (event->action == CM_ACTION_ALLOC) {
		span->begin = number;
	} else if (event->action == CM_ACTION_FREE_REQUESTED) {
		span->freed = number;
	} else {
		if (span->freed == CM_NEVER)
			span->freed = span->begin == CM_BEFORE ? CM_BEFORE : number;
		span->ready = number;
		*open = SIZE_MAX;
	}
	return true;
}

/* Adds a block whose allocation is not among the events. */
static bool add_block(struct building *building, const struct cm_block *block, size_t open)
{
	struct cm_span *span;

	if (block->state != CM_BLOCK_LIVE && block->state != CM_BLOCK_PENDING)
		return true;
	if (open == SIZE_MAX) {
		if (block->requested < building->history->snapshot->min_size_bytes)
			return true;
		span = add_span(building, block->addr);
		if (!span)
			return false;
		span->size = block->requested;
		if (block->state == CM_BLOCK_PENDING)
			span->freed = CM_BEFORE;
	} else {
		span = &building->history->span[open];
	}
	if (!span->stack)
		span->stack = cm_block_stack(block);
	return true;
}

/* Walks events and blocks together, both by address. */
static bool pair_up(struct building *building)
{
	const struct cm_history *history = building->history;
	size_t at = 0, open, blocks;
	const struct cm_block *block = cm_device_blocks(history->snapshot, history->device,
							&blocks);
	const struct cm_block *end = block + blocks;
	uint64_t addr;

	while (at < building->ordered || block < end) {
		addr = UINT64_MAX;
		if (at < building->ordered)
			addr = history->event[building->order[at]].addr;
		if (block < end && block->addr < addr)
			addr = block->addr;
		open = SIZE_MAX;
		for (; at < building->ordered && history->event[building->order[at]].addr == addr;
		     at++)
			if (!follow(building, &history->event[building->order[at]],
				    building->order[at], &open))
				return false;
		for (; block < end && block->addr == addr; block++)
			if (!add_block(building, block, open))
				return false;
	}
	return true;
}

static int by_begin(const void *a, const void *b)
{
	const struct cm_span *x = a, *y = b;
	const uint32_t p = x->begin + 1, q = y->begin + 1; /* CM_BEFORE comes first */

	if (p != q)
		return p < q ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* The change of reserved memory by an event. */
static int64_t change_reserved(const struct cm_event *event)
{
	if (event->action == CM_ACTION_SEGMENT_ALLOC || event->action == CM_ACTION_SEGMENT_MAP)
		return (int64_t)event->size;
	if (event->action == CM_ACTION_SEGMENT_FREE || event->action == CM_ACTION_SEGMENT_UNMAP)
		return -(int64_t)event->size;
	return 0;
}

/* Computes the level before the first event. */
static void measure_start(struct cm_history *history)
{
	const struct cm_snapshot *snapshot = history->snapshot;
	const struct cm_snap_device *device = history->device;
	int64_t reserved = 0;
	size_t i;

	for (i = 0; i < history->spans && history->span[i].begin == CM_BEFORE; i++) {
		history->start.active += history->span[i].size;
		if (history->span[i].freed != CM_BEFORE)
			history->start.allocated += history->span[i].size;
	}
	for (i = 0; i < device->segments; i++)
		reserved = cm_wrap_add(
			reserved, (int64_t)snapshot->segment[device->first_segment + i].row->size);
	for (i = 0; i < history->events; i++)
		reserved = cm_wrap_sub(reserved, change_reserved(&history->event[i]));
	history->start.reserved = reserved > 0 ? (uint64_t)reserved : 0;
}

/* a - b, but not below 0: the events are foreign data. */
static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* Computes the level after each event, and the peak. */
static void measure(struct cm_history *history)
{
	struct cm_level now = history->start;
	uint64_t most = now.allocated;
	size_t i;

	history->peak = CM_BEFORE;
	for (i = 0; i < history->events; i++) {
		const struct cm_event *event = &history->event[i];

		if (event->action == CM_ACTION_ALLOC) {
			now.allocated += event->size;
			now.active += event->size;
		} else if (event->action == CM_ACTION_FREE_REQUESTED) {
			now.allocated = less(now.allocated, event->size);
		} else if (event->action == CM_ACTION_FREE_COMPLETED) {
			now.active = less(now.active, event->size);
		} else if (change_reserved(event) > 0) {
			now.reserved += event->size;
		} else if (change_reserved(event) < 0) {
			now.reserved = less(now.reserved, event->size);
		}
		history->level[i] = now;
		if (now.allocated > most) {
			most = now.allocated;
			history->peak = (uint32_t)i;
		}
	}
}

static bool build(struct building *building)
{
	struct cm_history *history = building->history;

	building->ordered = cm_events_order_by_address(history->event, history->events,
						       building->order,
						       building->order + history->events);
	if (!pair_up(building))
		return false;
	if (history->spans)
		qsort(history->span, history->spans, sizeof(*history->span), by_begin);
	measure_start(history);
	measure(history);
	return true;
}

int cm_history_create(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		      struct cm_history **ret_history)
{
	struct building building = {0};
	struct cm_history *history = calloc(1, sizeof(*history));
	bool ok = false;

	if (!history)
		return -ENOMEM;
	history->snapshot = snapshot;
	history->device = device;
	history->event = snapshot->event + device->first_event;
	history->events = device->events;
	history->level = calloc(history->events + 1, sizeof(*history->level));
	building.history = history;
	/* As much again is room to sort in. */
	building.order = malloc((2 * history->events + 1) * sizeof(*building.order));
	if (history->level && building.order)
		ok = build(&building);
	free(building.order);
	if (!ok) {
		cm_history_destroy(history);
		return -ENOMEM;
	}
	*ret_history = history;
	return 0;
}

void cm_history_destroy(struct cm_history *history)
{
	if (!history)
		return;
	free(history->span);
	free(history->level);
	free(history);
}

static int by_live_bytes(const void *a, const void *b)
{
	const struct cm_sum *x = a, *y = b;
	int m;

	for (m = 0; m < CM_MEASURE_COUNT; m++)
		if (x->bytes[m] != y->bytes[m])
			return x->bytes[m] > y->bytes[m] ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void add_bytes(struct cm_sum *sum, enum cm_measure measure, uint64_t bytes)
{
	sum->count[measure]++;
	sum->bytes[measure] += bytes;
}

/* Was the memory allocated, and not yet freed, after that event? */
static bool is_live_at(const struct cm_span *span, uint32_t event)
{
	const bool begun = span->begin == CM_BEFORE || (event != CM_BEFORE && span->begin <= event);

	return begun && span->freed != CM_BEFORE &&
	       (span->freed == CM_NEVER || event == CM_BEFORE || span->freed > event);
}

void cm_sum_add(struct cm_sum *sum, const struct cm_history *history, const struct cm_span *span)
{
	if (span->freed == CM_NEVER)
		add_bytes(sum, CM_MEASURE_LIVE, span->size);
	if (is_live_at(span, history->peak))
		add_bytes(sum, CM_MEASURE_PEAK, span->size);
	if (span->begin == CM_BEFORE)
		return;
	add_bytes(sum, CM_MEASURE_ALLOCATED, span->size);
	if (span->freed == CM_NEVER)
		add_bytes(sum, CM_MEASURE_KEPT, span->size);
}

int cm_sum_compare(const struct cm_sum *x, const struct cm_sum *y, enum cm_measure measure)
{
	if (x->bytes[measure] != y->bytes[measure])
		return x->bytes[measure] > y->bytes[measure] ? -1 : 1;
	return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Sums by stack, the largest CM_MEASURE_LIVE first. The caller frees the array. -ENOMEM. */
static int sum_by_stack(const struct cm_history *history, struct cm_sum **ret_sums,
			size_t *ret_count)
{
	const struct cm_snapshot *snapshot = history->snapshot;
	struct cm_sum *sums = calloc(snapshot->stacks, sizeof(*sums)), *sum;
	size_t i, count = 0;

	if (!sums)
		return -ENOMEM;
	for (i = 0; i < history->spans; i++) {
		const struct cm_span *span = &history->span[i];

		sum = &sums[cm_snapshot_stack(snapshot, span->stack) - snapshot->stack];
		cm_sum_add(sum, history, span);
	}
	for (i = 0; i < snapshot->stacks; i++) {
		sums[i].stack = (uint32_t)i;
		if (sums[i].count[CM_MEASURE_LIVE] || sums[i].count[CM_MEASURE_PEAK] ||
		    sums[i].count[CM_MEASURE_ALLOCATED])
			sums[count++] = sums[i];
	}
	qsort(sums, count, sizeof(*sums), by_live_bytes);
	*ret_sums = sums;
	*ret_count = count;
	return 0;
}

int cm_sums_each(const struct cm_snapshot *snapshot, cm_sums_fn fn, void *data)
{
	const struct cm_snap_device *device;
	struct cm_history *history;
	struct cm_sum *sums;
	size_t i, count;
	int err = 0;

	for (i = 0; (device = cm_snapshot_device(snapshot, i)) && !err; i++) {
		err = cm_history_create(snapshot, device, &history);
		if (err)
			break;
		err = sum_by_stack(history, &sums, &count);
		if (!err) {
			err = fn(data, device, sums, count);
			free(sums);
		}
		cm_history_destroy(history);
	}
	return err;
}

uint64_t cm_history_time(const struct cm_history *history, size_t event)
{
	return cm_image_time(history->snapshot->image, history->event[event].tick);
}

uint64_t cm_history_end(const struct cm_history *history)
{
	const uint64_t saved = history->snapshot->image->saved.time_ns;
	uint64_t time, end = 0;
	size_t i;

	for (i = 0; i < history->events; i++) {
		time = cm_history_time(history, i);
		if (time > end && time <= saved)
			end = time;
	}
	/* If a clock was put back, all of them are later than the snapshot. */
	return end || !i ? end : cm_history_time(history, i - 1);
}

const char *cm_measure_name(enum cm_measure measure)
{
	static const char *const names[CM_MEASURE_COUNT] = {
		[CM_MEASURE_LIVE] = "live",
		[CM_MEASURE_PEAK] = "peak",
		[CM_MEASURE_ALLOCATED] = "allocated",
		[CM_MEASURE_KEPT] = "kept",
	};

	return names[measure];
}
