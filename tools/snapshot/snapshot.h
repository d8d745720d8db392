/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as its readers want it: segments by device and address with their blocks in order, the
 * events of each device oldest first, and stacks as names. Built from an image, which is foreign
 * data: what does not fit together is left out and counted, never trusted.
 *
 * Everything is owned by the snapshot and constant once it is made.
 */
#ifndef CM_TOOLS_SNAPSHOT_SNAPSHOT_H
#define CM_TOOLS_SNAPSHOT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"
#include "tools/output/intern.h"
#include "tools/snapshot/image.h"

struct cm_snap_segment {
	const struct cm_segment *row;
	size_t first; /* its blocks, in cm_snapshot.block */
	size_t count;
	uint64_t allocated; /* bytes of live blocks */
	uint64_t active;    /* of live and pending ones */
	uint64_t requested; /* asked for, of live and pending ones */
};

/* A device, or pinned host memory, which stands behind them all with `row` NULL. */
struct cm_snap_device {
	uint32_t index; /* row of the device table; CM_DEVICE_NONE: pinned host memory */
	int32_t ordinal;
	const struct cm_device_row *row;
	size_t first_segment;
	size_t segments;
	size_t first_event;
	size_t events;
	uint64_t lost;         /* events that younger ones have overwritten */
	uint64_t total_events; /* since the last clear, lost ones included */
};

/* One frame as people read it. `function` is never empty; `file` is "??" where it is not known. */
struct cm_snap_frame {
	const char *function;
	const char *file;
	const char *module; /* path of the object, "" where it is not known */
	uint32_t line;      /* 0: not known */
	bool python;
};

struct cm_snap_stack {
	uint32_t id;    /* in CM_TABLE_STACK, of the first that has these frames */
	uint32_t first; /* in cm_snapshot.frame_list, innermost first */
	uint32_t count;
};

struct cm_snapshot {
	const struct cm_image *image;
	struct cm_snap_device *device; /* by row; pinned host memory last, always there */
	size_t devices;                /* that one included */
	struct cm_snap_segment *segment;
	size_t segments;
	struct cm_block *block; /* copies of the rows */
	size_t blocks;
	struct cm_event *event;
	size_t events;
	struct cm_snap_frame *frame; /* each different one once */
	size_t frames;
	uint32_t *frame_list;
	size_t frame_list_count;
	struct cm_snap_stack *stack; /* [0] is the empty one */
	size_t stacks;
	uint32_t *stack_at;     /* word of CM_TABLE_STACK -> index of its stack */
	size_t broken_segments; /* left out: their blocks do not tile them */
	uint32_t *context;      /* by row of the heap table: its number among its device's */
	uint32_t contexts;      /* rows */
	size_t broken_stacks;   /* left out: more frames than a table of that length can mean */
	struct cm_intern texts; /* what frames are called */
	struct cm_intern keys;  /* of the frames */
};

/* Builds it; the image must outlive it. -ENOMEM. */
int cm_snapshot_create(const struct cm_image *image, struct cm_snapshot **ret_snapshot);
void cm_snapshot_destroy(struct cm_snapshot *snapshot);

/* The stack of an id as rows have it; the empty one where there is none. Never NULL. */
const struct cm_snap_stack *cm_snapshot_stack(const struct cm_snapshot *snapshot, uint32_t id);

/* Which of its device's contexts a row of the heap table is, from 0 on. */
static inline uint32_t cm_snapshot_context(const struct cm_snapshot *snapshot, uint32_t heap)
{
	return heap < snapshot->contexts ? snapshot->context[heap] : 0;
}

/* The stack of the hand-out of a block or of the request a segment was got for. */
static inline uint32_t cm_block_stack(const struct cm_block *block)
{
	return block->state == CM_BLOCK_LIVE || block->state == CM_BLOCK_PENDING ? block->stack : 0;
}

static inline const struct cm_snap_frame *cm_stack_frame(const struct cm_snapshot *snapshot,
							 const struct cm_snap_stack *stack,
							 uint32_t i)
{
	return &snapshot->frame[snapshot->frame_list[stack->first + i]];
}

/* Whether there is anything to be told of a device: that snapshots were taken is nothing. */
bool cm_snap_device_is_used(const struct cm_snapshot *snapshot,
			    const struct cm_snap_device *device);

/* "alloc", "free_requested" and the other words of PyTorch's. */
const char *cm_action_name(uint32_t action);
/* "small", "large", "host". */
const char *cm_segment_pool_name(const struct cm_segment *segment);
/* The frame that says most about who asked: the innermost one that is not the allocator's or
 * CUDA's. Of the empty stack it is one that is no function, "(no stack recorded)". */
const struct cm_snap_frame *cm_stack_caller(const struct cm_snapshot *snapshot,
					    const struct cm_snap_stack *stack);

#endif
