/* SPDX-License-Identifier: MIT */
/*
 * One sample in a recording, as the changes since the sample before it. Writer and reader keep the
 * processes of the last sample each; both begin with none. The bytes are foreign data to the
 * reader: all counts are bounded, and texts have no control characters. Pure.
 *
 * A frame has
 *
 *   the change of CLOCK_MONOTONIC since the last sample, in ns
 *   1 and the processes, if they are others or in another order than before; else 0
 *   for each process: a number with a bit for each of its values that changed, and one more bit
 *   if a figure of a device did; the changes of the values; then for each device the place of a
 *   past state (delta_device.h) plus 1, or 0; and the same as for the process, from that state on
 *   for each card, in the order of its first device: the change of what is free on it
 *
 * A process is its place in the last sample plus 1; or 0 and what does not change in its life.
 */
#ifndef CM_TOOLS_WATCH_DELTA_H
#define CM_TOOLS_WATCH_DELTA_H

#include "tools/watch/delta_device.h"
#include "tools/watch/source.h"

#define CM_DELTA_PROCESSES_MAX 8192u
#define CM_DELTA_CARDS_MAX     64u
#define CM_DELTA_DEVICES_MAX   16384u /* of all processes */

/* A card, as the processes see it. */
struct cm_delta_card {
	uint8_t uuid[16];
	int64_t free; /* bytes, as the driver last told one of the processes; -1: it told none */
};

/* What changes in the life of a process. */
enum cm_delta_value {
	CM_DELTA_LIFE,
	CM_DELTA_HAS_HOST,
	CM_DELTA_HOST_BYTES, /* pinned memory allocated */
	CM_DELTA_VALUE_COUNT
};

struct cm_delta_process {
	struct cm_process process; /* its life and age are those of the last sample */
	struct cm_identity identity;
	pid_t ns_pid;
	uint64_t start_time;
	uint64_t born_ns; /* CLOCK_REALTIME; 0: unknown */
	char version[32];
	int64_t value[CM_DELTA_VALUE_COUNT];
	struct cm_delta_device *device;
	uint32_t devices;
};

struct cm_delta {
	struct cm_delta_process *process;
	size_t count, room;
	struct cm_delta_card card[CM_DELTA_CARDS_MAX]; /* those of the processes */
	size_t cards;
	uint64_t monotonic_ns;
};

/* The card of a device; NULL: there are too many. */
const struct cm_delta_card *cm_delta_find_card(const struct cm_delta *last, const uint8_t uuid[16]);

/* Frees what is held of the last sample; it is empty then. */
void cm_delta_fini(struct cm_delta *last);

/*
 * Appends a sample to the bytes, as changes since the one in `last`, which it becomes. Processes
 * and devices beyond the limits are left out. 0, -ENOMEM: `last` is empty then.
 */
int cm_delta_write(struct cm_delta *last, const struct cm_watch_sample *sample,
		   struct cm_bytes *bytes);

/*
 * Reads the sample after the one in `last`, which becomes that one. `figures`: how many a device
 * has in this recording. 0, -EBADMSG, -ENOMEM; `last` is empty after an error.
 */
int cm_delta_read(struct cm_delta *last, uint32_t figures, const void *data, size_t count);

#endif
