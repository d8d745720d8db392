/* SPDX-License-Identifier: MIT */
/*
 * The allocator's settings, filled from stats/options.def. Plain values; read-only after start, but
 * for those that a tool can change (CM_OPTION_LIVE), which have functions of their own.
 */
#ifndef CM_ALLOCATOR_BASE_POLICY_H
#define CM_ALLOCATOR_BASE_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/config.h"

#define CM_SHARDS_MOST 8u /* of a device */

struct cm_policy {
	enum cm_mode mode;
	enum cm_reuse reuse;
	enum cm_sync sync;
	enum cm_placement placement; /* never AUTO by the time the allocator sees it */
	/* Devices other than the GPU may access the program's memory at any time, whatever its
	 * streams wait for: every heap is shared. */
	bool reached;

	enum cm_oom_report oom_report;
	bool peer_processes; /* ask other processes for memory, and answer them */
	uint64_t decay_ns;   /* how long memory may be idle; 0: for ever */

	bool exchange; /* idle segments go back when a larger one is made */

	enum cm_shards shards;
	uint32_t shards_most; /* of a device, at least 1 */

	bool expandable_segments; /* page-backed memory, if driver and placement allow */

	uint64_t max_split_size;             /* bytes, UINT64_MAX: unlimited */
	uint64_t max_non_split_rounding;     /* bytes */
	uint64_t large_segment_size;         /* bytes, segments for requests of 1 to 10 MiB */
	double garbage_collection_threshold; /* of the cap, 0: off */
	double memory_fraction;              /* of the device's total, 1: no cap */
	uint64_t memory_limit;               /* bytes of a device, UINT64_MAX: no cap */
	uint32_t roundup_power2_divisions[CM_DIVISION_SLOTS]; /* 0 or 1: off */
};

/* The defaults: PyTorch's for its own options, ours for the others. */
void cm_policy_init(struct cm_policy *policy);

#endif
