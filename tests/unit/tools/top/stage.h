/* SPDX-License-Identifier: MIT */
/*
 * Made-up samples: processes whose figures a test sets, without regions.
 */
#ifndef CM_TESTS_UNIT_TOOLS_TOP_STAGE_H
#define CM_TESTS_UNIT_TOOLS_TOP_STAGE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/top/model.h"

#define STAGE_MAX 200
#define STAGE_GIB ((int64_t)1 << 30)

struct stage {
	struct cm_process process[STAGE_MAX];
	struct cm_watched watched[STAGE_MAX];
	struct cm_device_view device[STAGE_MAX];
	struct cm_watch_sample sample;
};

/* A second later than the sample before. */
static inline void stage_tick(struct stage *stage)
{
	stage->sample.time_ns += UINT64_C(1000000000);
	stage->sample.monotonic_ns += UINT64_C(1000000000);
}

static inline struct stage *stage_create(void)
{
	struct stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		abort();
	stage->sample.process = stage->watched;
	stage->sample.time_ns = UINT64_C(1700000000000000000);
	stage->sample.monotonic_ns = UINT64_C(1000000000);
	return stage;
}

/* Memory of a process: allocated, and of the cache pending, fragmented and releasable. */
static inline void stage_set(struct stage *stage, size_t i, int64_t allocated, int64_t pending,
			     int64_t fragmented, int64_t releasable)
{
	struct cm_stat_pool *pool = &stage->device[i].row.stat[CM_POOL_LARGE];

	pool->current[CM_STAT_ALLOCATED_BYTES] = allocated;
	pool->current[CM_STAT_ACTIVE_BYTES] = allocated + pending;
	pool->current[CM_STAT_INACTIVE_SPLIT_BYTES] = fragmented;
	pool->current[CM_STAT_RESERVED_BYTES] = allocated + pending + fragmented + releasable;
}

/* So many requests and frees in all. */
static inline void stage_traffic(struct stage *stage, size_t i, int64_t requests)
{
	struct cm_stat_pool *pool = &stage->device[i].row.stat[CM_POOL_LARGE];

	pool->freed[CM_STAT_ALLOCATION] = requests - pool->current[CM_STAT_ALLOCATION];
}

/* A process with 80 GiB cards, of which it sees number `gpu`. */
static inline size_t stage_add(struct stage *stage, pid_t pid, const char *user,
			       const char *command, int gpu)
{
	const size_t i = stage->sample.count++;
	struct cm_process *process = &stage->process[i];
	struct cm_device_row *row = &stage->device[i].row;

	process->pid = pid;
	process->uid = 5000; /* nobody's here */
	process->age_ns = UINT64_C(3600000000000);
	(void)snprintf(process->user, sizeof(process->user), "%s", user);
	(void)snprintf(process->comm, sizeof(process->comm), "%.*s", (int)strcspn(command, " "),
		       command);
	(void)snprintf(process->command, sizeof(process->command), "%s", command);
	(void)snprintf(process->path, sizeof(process->path), "/dev/shm/cudamem.%d", (int)pid);
	row->flags = CM_DEVICE_USED;
	row->ordinal = gpu;
	row->uuid[0] = (uint8_t)(gpu + 1);
	(void)snprintf(row->name, sizeof(row->name), "NVIDIA H100");
	row->total_bytes = 80 * (uint64_t)STAGE_GIB;
	stage->watched[i] = (struct cm_watched){.process = process,
						.ns_pid = pid,
						.start_time = (uint64_t)pid * 10,
						.version = "0.2.0",
						.device = &stage->device[i],
						.devices = 1};
	return i;
}

#endif
