/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/stretches.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>

/* Events are visited backwards in time, so an end comes before its beginning. */
struct gathering {
	struct cm_stretch *item; /* as long as count_most() */
	size_t count;
	/* A tree, by address, of stretches whose beginning was not found yet; no two overlap. */
	void *open;
	bool failed;
};

/* Overlapping stretches compare equal, so any part of a stretch finds it in the tree. */
static int by_address(const void *a, const void *b)
{
	const struct cm_stretch *x = a, *y = b;

	if (x->addr + x->size <= y->addr)
		return -1;
	return y->addr + y->size <= x->addr ? 1 : 0;
}

static void add_stretch(struct gathering *all, const struct cm_stretch *stretch)
{
	struct cm_stretch *item = &all->item[all->count++];

	*item = *stretch;
	item->begin = CM_BEFORE;
	if (!tsearch(item, &all->open, by_address))
		all->failed = true;
}

/* This event is the beginning of the open stretches in [addr, addr + size). */
static void set_begin(struct gathering *all, uint64_t addr, uint64_t size, uint32_t event)
{
	const struct cm_stretch sought = {.addr = addr, .size = size};
	const uint64_t end = addr + size;
	struct cm_stretch *const *found, *item, before, behind;

	while (!all->failed && (found = tfind(&sought, &all->open, by_address))) {
		item = *found;
		(void)tdelete(item, &all->open, by_address);
		item->begin = event;
		before = behind = *item;
		if (before.addr < addr) { /* the part outside is older */
			before.size = addr - before.addr;
			item->addr = addr;
			item->size -= before.size;
			add_stretch(all, &before);
		}
		if (item->addr + item->size > end) {
			behind.size = item->addr + item->size - end;
			behind.addr = end;
			item->size -= behind.size;
			add_stretch(all, &behind);
		}
	}
}

static bool is_begin(const struct cm_event *event)
{
	return event->action == CM_ACTION_SEGMENT_ALLOC || event->action == CM_ACTION_SEGMENT_MAP;
}

static bool is_end(const struct cm_event *event)
{
	return event->action == CM_ACTION_SEGMENT_FREE || event->action == CM_ACTION_SEGMENT_UNMAP;
}

/* A beginning may split a stretch on both sides; an end may do so, and adds a stretch. */
static size_t count_most(const struct cm_history *history)
{
	size_t most = history->device->segments + 1, i;

	for (i = 0; i < history->events; i++)
		most += is_begin(&history->event[i]) ? 2 : is_end(&history->event[i]) ? 3 : 0;
	return most;
}

static void add_segments(struct gathering *all, const struct cm_history *history)
{
	const struct cm_snap_segment *segment = history->snapshot->segment +
						history->device->first_segment;
	size_t i;

	for (i = 0; i < history->device->segments && !all->failed; i++) {
		const struct cm_segment *row = segment[i].row;

		if (row->size)
			add_stretch(all,
				    &(struct cm_stretch){.addr = row->addr,
							 .size = row->size,
							 .end = CM_NEVER,
							 .stack = row->stack,
							 .small = row->flags & CM_SEGMENT_SMALL,
							 .paged = row->flags & CM_SEGMENT_PAGED});
	}
}

static void add_events(struct gathering *all, const struct cm_history *history)
{
	size_t i;

	for (i = history->events; i-- > 0 && !all->failed;) {
		const struct cm_event *event = &history->event[i];

		if (!event->size || event->size > UINT64_MAX - event->addr ||
		    (!is_begin(event) && !is_end(event)))
			continue;
		/* An end within an open stretch: the event of its beginning was lost; it was
		 * later. */
		set_begin(all, event->addr, event->size, (uint32_t)i);
		if (is_end(event) && !all->failed)
			add_stretch(all, &(struct cm_stretch){.addr = event->addr,
							      .size = event->size,
							      .end = (uint32_t)i,
							      .stack = event->stack,
							      .small = event->pool == CM_POOL_SMALL,
							      .paged = event->action ==
								       CM_ACTION_SEGMENT_UNMAP});
	}
}

/* The tree does not own its items. */
static void keep_item(void *item)
{
	(void)item;
}

int cm_stretches_find(const struct cm_history *history, struct cm_stretch **ret_stretches,
		      size_t *ret_count)
{
	struct gathering all = {0};

	all.item = calloc(count_most(history), sizeof(*all.item));
	if (!all.item)
		return -ENOMEM;
	add_segments(&all, history);
	add_events(&all, history);
	tdestroy(all.open, keep_item);
	if (all.failed) {
		free(all.item);
		return -ENOMEM;
	}
	*ret_stretches = all.item;
	*ret_count = all.count;
	return 0;
}
