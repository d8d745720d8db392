/* SPDX-License-Identifier: MIT */
/*
 * A snapshot, indexed: segments by device and address with their blocks in order, the events of
 * each device oldest first, stacks as names. It is built from an image, which is foreign data:
 * whatever is inconsistent is left out and counted.
 *
 * The snapshot owns everything, and is constant once it is created.
 */
#ifndef CM_TOOLS_SNAPSHOT_SNAPSHOT_H
#define CM_TOOLS_SNAPSHOT_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/code_layers.h"
#include "stats/layout.h"
#include "tools/output/intern.h"
#include "tools/snapshot/image.h"

struct cm_snap_segment {
	const struct cm_segment *row;
	size_t first; /* its blocks, in cm_snapshot.block */
	size_t count;
	uint64_t allocated; /* bytes of live blocks */
	uint64_t active;    /* of live and pending ones */
	uint64_t requested; /* requested, of live and pending ones */
};

/* A device; the last one is pinned host memory, with `row` NULL. */
struct cm_snap_device {
	uint32_t index; /* row of its first shard; CM_DEVICE_NONE: pinned host memory */
	int32_t ordinal;
	const struct cm_device_row *row; /* the sum over its shards */
	size_t first_segment;
	size_t segments;
	size_t first_event;
	size_t events;
	uint64_t lost; /* events overwritten by younger ones */
	bool outside;  /* the memory of a device outside the cache: only events */
};

/* A frame for people. `function` is never empty; `file` is "??" if it is unknown. */
struct cm_snap_frame {
	const char *function;
	const char *file;
	const char *module; /* path of the object; "": unknown */
	uint32_t line;      /* 0: unknown */
	bool python;
	enum cm_layer layer;
	const char *layer_name; /* NULL: of the program's own code */
};

struct cm_snap_stack {
	uint32_t id;    /* in CM_TABLE_STACK, of the first stack with these frames */
	uint32_t first; /* in cm_snapshot.frame_list, innermost first */
	uint32_t count;
};

struct cm_snapshot {
	const struct cm_image *image;
	struct cm_snap_device *device; /* by row; pinned host memory is always the last */
	size_t devices;                /* including pinned host memory */
	struct cm_shard_map shards;
	struct cm_device_row *sum; /* by device */
	/* Devices with memory outside the cache, or events about it, once more, for those alone.
	 * They have the form of others: each free is one that was requested and one that was
	 * completed. `pool` of these events is an enum cm_uncached_kind. */
	struct cm_snap_device *outside;
	size_t outsides;
	struct cm_snap_segment *segment;
	size_t segments;
	struct cm_block *block; /* copies of the rows */
	size_t blocks;
	struct cm_event *event;
	size_t events;
	struct cm_snap_frame *frame; /* all different */
	size_t frames;
	uint32_t *frame_list;
	size_t frame_list_count;
	struct cm_snap_stack *stack; /* [0] is empty */
	size_t stacks;
	uint32_t *stack_at;      /* word of CM_TABLE_STACK -> index of its stack */
	uint64_t min_size_bytes; /* smaller blocks are no allocations of a history; 0: none */
	size_t broken_segments;  /* left out: their blocks do not tile them */
	uint32_t *context;      /* by row of the heap table: its number among those of its device */
	uint32_t contexts;      /* rows */
	size_t broken_stacks;   /* left out: more frames than a table of that length can hold */
	struct cm_intern texts; /* names of the frames */
	struct cm_intern keys;  /* of the frames, to find equal ones */
};

/* The image must outlive the snapshot. `hide`, unless NULL: patterns, separated by commas, of
 * functions, files and objects that reports skip as they skip libraries; * matches anything.
 * -ENOMEM. */
int cm_snapshot_create(const struct cm_image *image, const char *hide,
		       struct cm_snapshot **ret_snapshot);
void cm_snapshot_destroy(struct cm_snapshot *snapshot);

/* The stack of an id from a row; the empty one if there is none. Never NULL. */
const struct cm_snap_stack *cm_snapshot_stack(const struct cm_snapshot *snapshot, uint32_t id);

/* The number of a row of the heap table among the contexts of its device, from 0. */
static inline uint32_t cm_snapshot_context(const struct cm_snapshot *snapshot, uint32_t heap)
{
	return heap < snapshot->contexts ? snapshot->context[heap] : 0;
}

/* The id of the stack that allocated a block; 0 if the block is free. */
static inline uint32_t cm_block_stack(const struct cm_block *block)
{
	return block->state == CM_BLOCK_LIVE || block->state == CM_BLOCK_PENDING ? block->stack : 0;
}

/* The blocks of a device by address, those of each segment together. */
static inline const struct cm_block *cm_device_blocks(const struct cm_snapshot *snapshot,
						      const struct cm_snap_device *device,
						      size_t *ret_count)
{
	const struct cm_snap_segment *first = &snapshot->segment[device->first_segment];
	const struct cm_snap_segment *last = first + (device->segments ? device->segments - 1 : 0);

	*ret_count = device->segments ? last->first + last->count - first->first : 0;
	return &snapshot->block[first->first];
}

static inline const struct cm_snap_frame *cm_stack_frame(const struct cm_snapshot *snapshot,
							 const struct cm_snap_stack *stack,
							 uint32_t i)
{
	return &snapshot->frame[snapshot->frame_list[stack->first + i]];
}

/* What an event of the device is called; NULL: the second event of a free outside the cache, which
 * is one event. */
const char *cm_snap_event_name(const struct cm_snap_device *device, const struct cm_event *event);

/* All devices, and behind them those for memory outside the cache. NULL: there are no more. */
static inline const struct cm_snap_device *cm_snapshot_device(const struct cm_snapshot *snapshot,
							      size_t i)
{
	if (i < snapshot->devices)
		return &snapshot->device[i];
	return i - snapshot->devices < snapshot->outsides
		       ? &snapshot->outside[i - snapshot->devices]
		       : NULL;
}

/* Has the device segments, or events other than that snapshots were taken? */
bool cm_snap_device_is_used(const struct cm_snapshot *snapshot,
			    const struct cm_snap_device *device);

/* PyTorch's names: "alloc", "free_requested" and so on. */
const char *cm_action_name(uint32_t action);
/* PyTorch's names: "active_allocated", "active_pending_free", "inactive". */
const char *cm_block_state_name(uint32_t state);
/* What a kind of memory outside the cache, an enum cm_uncached_kind, is called: "managed",
 * "pitched" and so on. */
const char *cm_uncached_name(uint32_t kind);
/* "small", "large", "host". */
const char *cm_segment_pool_name(const struct cm_segment *segment);

#endif
