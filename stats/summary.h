/* SPDX-License-Identifier: MIT */
/*
 * What follows from the counters and the tables: the only place where a derived figure is defined.
 * Pure but for the tables, which are read through the reader. The rows are foreign data: sums wrap
 * and never trap, and a figure that makes no sense comes out as it is, negative ones included.
 */
#ifndef CM_STATS_SUMMARY_H
#define CM_STATS_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/layout.h"
#include "stats/reader.h"

/* One pool of one device, in bytes unless said otherwise. */
struct cm_summary {
	int64_t allocated;  /* in allocated blocks */
	int64_t requested;  /* bytes that the program asked for, in allocated and pending blocks */
	int64_t pending;    /* pending free: the device may still use it */
	int64_t reserved;   /* in segments of the driver */
	int64_t cached;     /* reserved - allocated */
	int64_t fragmented; /* of cached: free, in segments with live blocks */
	int64_t releasable; /* of cached: free, in segments without a live block */
	int64_t rounding;   /* block sizes beyond what was asked for */
	int64_t peak_allocated;
	int64_t peak_reserved;
	int64_t blocks; /* allocated */
	int64_t segments;
	int64_t allocs; /* requests served, since the last reset */
	int64_t frees;
};

struct cm_summary cm_summary_pool(const struct cm_device_row *row, enum cm_pool pool);

/*
 * Uncached device memory of the process, in bytes: all kinds but managed memory, which the driver
 * places where it likes.
 */
int64_t cm_summary_other(const struct cm_device_row *row);

/*
 * Untracked device memory, in bytes: used by contexts, libraries and other processes, not by what
 * the row counts. False: unknown, as the driver was never asked how much is free. Never negative,
 * though memory may have been allocated since the driver was asked.
 */
bool cm_summary_outside(const struct cm_device_row *row, int64_t *ret_bytes);

/* Share of requests that needed no driver allocation, 0 to 1; -1 if there was no request. */
double cm_hit_rate(int64_t hits, int64_t misses);

/* What the block table says of one pool of a device. */
struct cm_survey_pool {
	uint64_t largest_free; /* bytes of the largest ready block */
	uint64_t free_bytes;
	uint64_t free_blocks;
	uint64_t pending_blocks;
};

struct cm_survey {
	/* By row of the device's first shard. */
	struct cm_survey_pool pool[CM_DEVICES_MAX][CM_POOL_COUNT];
	uint64_t named_bytes[CM_DEVICES_MAX]; /* in segments that were named to other devices */
};

/*
 * Reads the block table once, for all devices. A live process changes it meanwhile, so the figures
 * are approximate. The caller owns *ret_survey. -ENOMEM, -EIO.
 */
int cm_survey_create(struct cm_reader *reader, struct cm_survey **ret_survey);
/* NULL is fine. */
void cm_survey_destroy(struct cm_survey *survey);

/* Share of the free bytes outside the largest piece, 0 to 1; -1 if nothing is free. */
double cm_fragmentation(const struct cm_survey_pool *pool);

typedef void (*cm_block_fn)(void *data, const struct cm_block *block);

/*
 * Calls `fn` for each block of a segment in address order. -EUCLEAN: the blocks do not tile the
 * segment (a live process changed it meanwhile, or it is damaged); `fn` has then seen a part.
 */
int cm_segment_walk(struct cm_reader *reader, const struct cm_segment *segment, cm_block_fn fn,
		    void *data);

#endif
