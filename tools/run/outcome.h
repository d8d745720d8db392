/* SPDX-License-Identifier: MIT */
/*
 * What the cache did for a process, in five lines, at its end: `run --report`. The counters are
 * foreign data; figures that make no sense come out as they are. Single-threaded.
 */
#ifndef CM_TOOLS_RUN_OUTCOME_H
#define CM_TOOLS_RUN_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stats/layout.h"
#include "stats/reader.h"

/* Sums over the devices of a process, in bytes unless said otherwise. */
struct cm_run_outcome {
	int64_t peak_allocated;
	int64_t peak_reserved;
	int64_t peak_fragmented; /* of the device where it was highest */
	int64_t peak_uncached;   /* sum of the peaks of its kinds */
	int64_t allocs;          /* requests, as all down to `rejections` */
	int64_t frees;
	int64_t hits;
	int64_t misses;
	int64_t driver_allocs;
	int64_t driver_frees;
	int64_t forwarded;
	int64_t ooms;
	int64_t rejections; /* refused by a cap */
	int64_t decayed;
	size_t devices;
	bool caches;    /* mode:cache */
	bool may_share; /* placement is exact for signs that memory is shared, not by an option */
	bool saves_oom; /* run --oom */
	bool pages;     /* expandable_segments:on */
	bool splits;    /* not placement:exact */
};

/* Adds a device. */
void cm_run_outcome_add(struct cm_run_outcome *outcome, const struct cm_device_row *row);

/* Writes a sentence that says which option would have helped, and by which figure; or that none
 * would. */
void cm_run_outcome_advise(const struct cm_run_outcome *outcome, char *text, size_t bytes);

/* Prints the lines. Nothing if the process never requested device memory: false. */
bool cm_run_outcome_print(struct cm_reader *reader, bool saves_oom, FILE *out);

#endif
