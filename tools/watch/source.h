/* SPDX-License-Identifier: MIT */
/*
 * Where live views get their samples: all processes and their devices at one time. A source is
 * live (tools/watch/live.h), or plays a recording. What a sample holds belongs to the source and is
 * valid until the next call of it. Single-threaded.
 */
#ifndef CM_TOOLS_WATCH_SOURCE_H
#define CM_TOOLS_WATCH_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/summary.h"
#include "tools/processes/collect.h"
#include "tools/processes/identity.h"

/* One process at the time of a sample. */
struct cm_watched {
	/* Who it is. The reader is NULL in a recording, and if the region cannot be read: then
	 * `process->error` says why, and there are no figures. */
	const struct cm_process *process;
	pid_t ns_pid;        /* inside its container */
	uint64_t start_time; /* of the process, as its region says: tells a reused pid apart */
	char version[32];    /* of its libcudamem */
	struct cm_identity identity;
	const struct cm_device_view *device; /* those that --device selects */
	size_t devices;
	bool has_host;
	struct cm_host_row host; /* pinned memory; its `torn` is not recorded */
	/* What the block tables say; NULL unless `want_survey` is set, and in a recording. */
	struct cm_survey *survey;
};

struct cm_watch_sample {
	uint64_t time_ns;                 /* CLOCK_REALTIME, when it was taken */
	uint64_t monotonic_ns;            /* the same on a clock without leaps, for rates */
	const struct cm_watched *process; /* running ones first, then by pid */
	size_t count;
};

struct cm_watch_source {
	/*
	 * Takes the next sample. A device whose counters changed while they were read is marked
	 * `torn`: its figures belong to different moments. 0; -ENODATA: the recording is at its
	 * end; or a negative errno. Blocks while it reads.
	 */
	int (*take)(struct cm_watch_source *source, struct cm_watch_sample *ret_sample);
	/*
	 * Moves a recording by so many nanoseconds from the last sample, to the next sample there,
	 * but not beyond its ends. Takes up to `before` samples that lead to that one first, and
	 * returns how many. NULL: a live source.
	 */
	size_t (*seek)(struct cm_watch_source *source, int64_t by_ns, size_t before);
	void (*close)(struct cm_watch_source *source);
	/* Set by the view. */
	bool want_survey; /* figures of the block tables: slow, they are read as a whole */
	double speed;     /* of a recording, 1: as it was, 0: as fast as it can be read */
	/* Set by a recording with each sample: CLOCK_MONOTONIC at which the next one is due; 0: as
	 * the view likes. */
	uint64_t due_ns;
	/* Of a recording: CLOCK_REALTIME of its first and last sample, and where it was made. */
	uint64_t first_ns, last_ns;
	const char *host; /* NULL: a live source */
	const char *file;
};

/* Complains that a source failed with this negative errno. Returns the exit code. */
int cm_watch_fail(const struct cm_watch_source *source, int err);

/* Sleeps until that CLOCK_MONOTONIC, whatever signals come. */
void cm_watch_sleep_until(uint64_t monotonic_ns);

/* NULL is fine. */
static inline void cm_watch_close(struct cm_watch_source *source)
{
	if (source)
		source->close(source);
}

#endif
