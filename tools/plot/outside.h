/* SPDX-License-Identifier: MIT */
/*
 * The memory of a device outside the cache, which has events of its own: how much of it there was
 * when something happened in the cache.
 */
#ifndef CM_TOOLS_PLOT_OUTSIDE_H
#define CM_TOOLS_PLOT_OUTSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/snapshot/history.h"

/* Bytes outside the cache over time, read from the first event to the last. */
struct cm_outside {
	struct cm_history *history; /* of the events outside the cache */
	uint64_t before;            /* bytes that are there all the time, without an event */
	uint64_t end_ns;            /* of the events */
	size_t next;                /* the first event that has not been read */
};

/* 0; -ENODATA: the device has no such memory; -ENOMEM. The snapshot must outlive it. */
int cm_outside_open(const struct cm_snapshot *snapshot, const struct cm_snap_device *device,
		    struct cm_outside *ret_outside);
void cm_outside_close(struct cm_outside *outside);

/* Bytes at the event that was read last, or before the first one. */
uint64_t cm_outside_level(const struct cm_outside *outside);
/* Reads the next event up to this time. False: there is none. */
bool cm_outside_read(struct cm_outside *outside, uint64_t time_ns);

#endif
