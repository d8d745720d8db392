/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/ranges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/reserve.h"

#define LEVELS_MAX 32 /* of which the library keeps the names */

static int by_thread(const void *a, const void *b)
{
	const struct cm_event *const *x = a, *const *y = b;

	if ((*x)->thread != (*y)->thread)
		return (*x)->thread < (*y)->thread ? -1 : 1;
	return (*x)->number < (*y)->number ? -1 : (*x)->number > (*y)->number;
}

static int by_time(const void *a, const void *b)
{
	const struct cm_edge *x = a, *y = b;

	if (x->time_ns != y->time_ns)
		return x->time_ns < y->time_ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

struct finding {
	const struct cm_snapshot *snapshot;
	const struct cm_event **event; /* of one device, by thread */
	struct cm_edge *edge;
	size_t edges, room;
	bool failed; /* not enough memory */
};

/* The ranges of an event, outermost first; of more the innermost are left out. */
struct ranges {
	struct {
		const char *name;
		size_t bytes;
	} level[LEVELS_MAX];
	size_t count;
};

static struct ranges ranges_of(const struct finding *finding, const struct cm_event *event)
{
	struct ranges ranges = {.count = 0};
	const char *at = cm_image_text(finding->snapshot->image, CM_TABLE_TEXT, event->annotation);

	while (*at && ranges.count < LEVELS_MAX) {
		const char *end = strchrnul(at, CM_RANGE_SPLIT);

		ranges.level[ranges.count].name = at;
		ranges.level[ranges.count++].bytes = (size_t)(end - at);
		at = *end ? end + 1 : end;
	}
	return ranges;
}

static size_t count_common(const struct ranges *a, const struct ranges *b)
{
	size_t i = 0;

	while (i < a->count && i < b->count && a->level[i].bytes == b->level[i].bytes &&
	       !memcmp(a->level[i].name, b->level[i].name, a->level[i].bytes))
		i++;
	return i;
}

/* Adds an edge for the ranges of an event from `level` on: as they end, the innermost first. */
static void add_edges(struct finding *finding, int32_t ordinal, const struct cm_event *event,
		      const struct ranges *ranges, size_t level, bool end)
{
	const size_t count = ranges->count - level;
	size_t i, at;

	if (!cm_reserve(&finding->edge, &finding->room, finding->edges + count)) {
		finding->failed = true;
		return;
	}
	for (i = 0; i < count; i++, finding->edges++) {
		at = end ? ranges->count - 1 - i : level + i;
		finding->edge[finding->edges] = (struct cm_edge){
			.time_ns = cm_image_time(finding->snapshot->image, event->tick),
			.name = ranges->level[at].name,
			.bytes = ranges->level[at].bytes,
			.ordinal = ordinal,
			.end = end,
			.order = finding->edges,
		};
	}
}

static void find_edges(struct finding *finding, const struct cm_snap_device *device)
{
	const struct cm_event *event, *before = NULL;
	struct ranges open = {.count = 0}, next;
	size_t i, common;

	for (i = 0; i < device->events; i++)
		finding->event[i] = &finding->snapshot->event[device->first_event + i];
	if (device->events)
		qsort(finding->event, device->events, sizeof(*finding->event), by_thread);
	for (i = 0; i < device->events; i++, before = event, open = next) {
		event = finding->event[i];
		next = ranges_of(finding, event);
		common = before && before->thread == event->thread ? count_common(&open, &next) : 0;
		if (before)
			add_edges(finding, device->ordinal, before, &open, common, true);
		add_edges(finding, device->ordinal, event, &next, common, false);
	}
	if (before)
		add_edges(finding, device->ordinal, before, &open, 0, true);
}

int cm_ranges_find(const struct cm_snapshot *snapshot, struct cm_edge **ret_edges,
		   size_t *ret_count)
{
	struct finding finding = {.snapshot = snapshot};
	size_t d;

	finding.event = calloc(snapshot->events + 1, sizeof(*finding.event));
	if (!finding.event)
		return -ENOMEM;
	/* Without pinned memory, which comes last. */
	for (d = 0; d + 1 < snapshot->devices; d++)
		find_edges(&finding, &snapshot->device[d]);
	free(finding.event);
	if (finding.failed) {
		free(finding.edge);
		return -ENOMEM;
	}
	if (finding.edges)
		qsort(finding.edge, finding.edges, sizeof(*finding.edge), by_time);
	*ret_edges = finding.edge;
	*ret_count = finding.edges;
	return 0;
}
