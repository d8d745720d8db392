/* SPDX-License-Identifier: MIT */
/*
 * The events of a device, or of pinned memory, oldest first: those of the rings of all its shards,
 * merged by time. They begin where the ring begins that reaches back least, as from there on
 * nothing is missing.
 *
 * Reads an image, which is foreign data; it must outlive what is read here.
 */
#ifndef CM_TOOLS_SNAPSHOT_RINGS_H
#define CM_TOOLS_SNAPSHOT_RINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/reader.h"
#include "tools/snapshot/image.h"

struct cm_ring_place {
	const struct cm_event *row;
	uint64_t mask;
	uint64_t number; /* of the next event; last + 1: there is none */
	uint64_t last;
	uint64_t tick; /* of the next event, no less than that of the one before */
};

struct cm_rings {
	struct cm_ring_place ring[CM_DEVICES_MAX];
	uint32_t count;
	uint64_t number;     /* events of the device up to the one that was read last */
	uint64_t own_number; /* what its ring calls that one */
	uint64_t lost;       /* events overwritten by younger ones, and those older than that */
};

/* `device`: by the row of its first shard; CM_DEVICE_NONE: pinned memory. */
void cm_rings_open(const struct cm_image *image, const struct cm_shard_map *map, uint32_t device,
		   struct cm_rings *ret_rings);

/* Copies the next event. The events of several rings are numbered anew, as one. False: there are no
 * more. */
bool cm_rings_next(struct cm_rings *rings, struct cm_event *ret_event);

#endif
