/* SPDX-License-Identifier: MIT */
#include "interpose/core/state.h"

#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "stats/tick.h"

union cm_process cm_process __attribute__((aligned(CM_PROCESS_PAGE)));

/* Survives into a forked child, whose start overwrites it. */
static struct cm_policy settings;

void cm_process_set(struct cm_region *region, const struct cm_policy *policy)
{
	settings = *policy;
	cm_process.region = region;
}

void cm_process_clear(void)
{
	memset(&cm_process, 0, sizeof(cm_process));
}

void cm_process_wipe_on_fork(void)
{
	(void)madvise(&cm_process, sizeof(cm_process), MADV_WIPEONFORK);
}

struct cm_region *cm_process_region(void)
{
	return cm_process.region;
}

const struct cm_policy *cm_process_policy(void)
{
	return cm_process.region ? &settings : NULL;
}

static void read_clocks(uint64_t *ret_tick, uint64_t *ret_time_ns)
{
	struct timespec now;

	*ret_tick = cm_tick();
	(void)clock_gettime(CLOCK_REALTIME, &now);
	*ret_time_ns = (uint64_t)now.tv_sec * CM_NS_PER_S + (uint64_t)now.tv_nsec;
}

void cm_process_stamp_start(struct cm_region *region)
{
	read_clocks(&region->header->tick_base, &region->header->time_base_ns);
}

void cm_process_stamp(void)
{
	struct cm_header *header = cm_process.region->header;

	read_clocks(&header->tick_last, &header->time_last_ns);
}
