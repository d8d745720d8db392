/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/ranges.h"

#include <errno.h>
#include <stdlib.h>

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
	struct cm_edge *edge;          /* two per event at most */
	size_t edges;
};

static void add(struct finding *finding, int32_t ordinal, const struct cm_event *event, bool end)
{
	finding->edge[finding->edges] = (struct cm_edge){
		.time_ns = cm_image_time(finding->snapshot->image, event->tick),
		.text = event->annotation,
		.ordinal = ordinal,
		.end = end,
		.order = finding->edges,
	};
	finding->edges++;
}

static void find(struct finding *finding, const struct cm_snap_device *device)
{
	const struct cm_event *event, *before = NULL;
	size_t i;

	for (i = 0; i < device->events; i++)
		finding->event[i] = &finding->snapshot->event[device->first_event + i];
	if (device->events)
		qsort(finding->event, device->events, sizeof(*finding->event), by_thread);
	for (i = 0; i < device->events; i++, before = event) {
		event = finding->event[i];
		if (before && before->thread == event->thread &&
		    before->annotation == event->annotation)
			continue;
		if (before && before->annotation)
			add(finding, device->ordinal, before, true);
		if (event->annotation)
			add(finding, device->ordinal, event, false);
	}
	if (before && before->annotation)
		add(finding, device->ordinal, before, true);
}

int cm_ranges_find(const struct cm_snapshot *snapshot, struct cm_edge **ret_edges,
		   size_t *ret_count)
{
	struct finding finding = {.snapshot = snapshot};
	size_t d;

	finding.event = calloc(snapshot->events + 1, sizeof(*finding.event));
	finding.edge = calloc(2 * snapshot->events + 1, sizeof(*finding.edge));
	if (!finding.event || !finding.edge) {
		free(finding.event);
		free(finding.edge);
		return -ENOMEM;
	}
	/* Without pinned memory, which comes last. */
	for (d = 0; d + 1 < snapshot->devices; d++)
		find(&finding, &snapshot->device[d]);
	free(finding.event);
	qsort(finding.edge, finding.edges, sizeof(*finding.edge), by_time);
	*ret_edges = finding.edge;
	*ret_count = finding.edges;
	return 0;
}
