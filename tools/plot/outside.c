/* SPDX-License-Identifier: MIT */
#include "tools/plot/outside.h"

#include <errno.h>

#include "tools/snapshot/figures.h"

static const struct cm_snap_device *outside_of(const struct cm_snapshot *snapshot,
					       const struct cm_snap_device *device)
{
	size_t i;

	for (i = 0; i < snapshot->outsides && !device->outside; i++)
		if (device->row && snapshot->outside[i].index == device->index)
			return &snapshot->outside[i];
	return NULL;
}

int cm_outside_open(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		    struct cm_outside *ret_outside)
{
	const struct cm_snap_device *found = outside_of(snapshot, device);
	struct cm_outside outside = {0};
	struct cm_figures figures;
	uint64_t last;
	int err;

	if (!found)
		return -ENODATA;
	err = cm_history_create(snapshot, found, &outside.history);
	if (err)
		return err;
	/* The last level is known, and with it what was there before the events; but not how large
	 * each of that is, so with --min-size it is left out. */
	last = outside.history->events
		       ? outside.history->level[outside.history->events - 1].allocated
		       : outside.history->start.allocated;
	cm_figures_get(snapshot, found, &figures);
	outside.before = figures.allocated > last && !snapshot->min_size_bytes
				 ? figures.allocated - last
				 : 0;
	outside.end_ns = cm_history_end(outside.history);
	*ret_outside = outside;
	return 0;
}

void cm_outside_close(struct cm_outside *outside)
{
	cm_history_destroy(outside->history);
	outside->history = NULL;
}

uint64_t cm_outside_level(const struct cm_outside *outside)
{
	const struct cm_history *history = outside->history;

	return outside->before + (outside->next ? history->level[outside->next - 1].allocated
						: history->start.allocated);
}

bool cm_outside_read(struct cm_outside *outside, uint64_t time_ns)
{
	const struct cm_history *history = outside->history;
	uint64_t time;

	if (outside->next == history->events)
		return false;
	time = cm_history_time(history, outside->next);
	/* A damaged time does not hide the events behind it. */
	if (time > time_ns && time <= outside->end_ns)
		return false;
	outside->next++;
	return true;
}
