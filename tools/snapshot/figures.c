/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/figures.h"

#include <string.h>

#include "stats/text.h"

/* Of memory outside the cache only how much there is is known. */
static void get_outside(const struct cm_device_row *row, struct cm_figures *ret_figures)
{
	struct cm_figures figures = {0};
	uint32_t kind;

	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++) {
		if (row->other_bytes[kind].current <= 0)
			continue;
		figures.allocated += (uint64_t)row->other_bytes[kind].current;
		figures.blocks += (uint64_t)row->other_count[kind].current;
	}
	figures.requested = figures.allocated;
	*ret_figures = figures;
}

void cm_figures_get(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		    struct cm_figures *ret_figures)
{
	struct cm_figures figures = {0};
	const struct cm_block *block;
	size_t i, blocks;

	if (device->outside) {
		get_outside(device->row, ret_figures);
		return;
	}
	for (i = 0; i < device->segments; i++) {
		const struct cm_snap_segment *segment =
			&snapshot->segment[device->first_segment + i];

		/* The blocks tile the segment: what is not active is free. */
		*(segment->active ? &figures.fragmented
				  : &figures.releasable) += segment->row->size - segment->active;
		figures.allocated += segment->allocated;
		figures.pending += segment->active - segment->allocated;
		figures.reserved += segment->row->size;
	}
	block = cm_device_blocks(snapshot, device, &blocks);
	for (i = 0; i < blocks; i++, block++) {
		if (block->state == CM_BLOCK_FREE && block->size > figures.largest_free)
			figures.largest_free = block->size;
		if (block->state != CM_BLOCK_LIVE && block->state != CM_BLOCK_PENDING)
			continue;
		figures.blocks += block->state == CM_BLOCK_LIVE;
		figures.requested += block->requested;
		/* In a damaged row the block may be smaller than the request. */
		if (block->size > block->requested)
			figures.rounding += block->size - block->requested;
	}
	figures.segments = device->segments;
	*ret_figures = figures;
}

size_t cm_saved_remark(const struct cm_saved *saved, const char *ret_remarks[CM_REMARKS_MAX])
{
	static const char *const reasons[CM_REASON_COUNT] = {
		[CM_REASON_OOM] = "out of memory",
		[CM_REASON_PEAK] = "after the peak",
		[CM_REASON_EXIT] = "at exit",
	};
	static const char *const lives[CM_LIFE_COUNT] = {
		[CM_LIFE_STOPPED] = "while it was stopped",
		[CM_LIFE_EXITED] = "after it had exited",
		[CM_LIFE_CRASHED] = "after it crashed, was killed or called _exit()",
	};
	size_t count = 0;

	if (saved->reason < CM_REASON_COUNT && reasons[saved->reason])
		ret_remarks[count++] = reasons[saved->reason];
	if (saved->life < CM_LIFE_COUNT && lives[saved->life])
		ret_remarks[count++] = lives[saved->life];
	if (saved->moment == CM_MOMENT_TORN)
		ret_remarks[count++] = "not of one moment";
	return count;
}

struct cm_device_text cm_device_title(const struct cm_snap_device *device)
{
	struct cm_device_text to = {"pinned host memory"};
	char model[sizeof(device->row->name)];

	if (!device->row)
		return to;
	if (device->outside) {
		(void)snprintf(to.text, sizeof(to.text), "GPU %d outside the cache",
			       (int)device->ordinal);
		return to;
	}
	cm_text_clean(model, sizeof(model), device->row->name);
	(void)snprintf(to.text, sizeof(to.text), "GPU %d  %s", (int)device->ordinal, model);
	return to;
}

struct cm_device_text cm_device_short(const struct cm_snap_device *device)
{
	struct cm_device_text to = {"pinned memory"};

	if (device->row)
		(void)snprintf(to.text, sizeof(to.text), "GPU %d%s", (int)device->ordinal,
			       device->outside ? " outside the cache" : "");
	return to;
}
