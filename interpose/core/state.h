/* SPDX-License-Identifier: MIT */
/*
 * What every room may know about the library in this process: its cache, settings and region, once
 * the start (process/process.h) has made them. Nothing here starts anything. Thread-safe.
 */
#ifndef CM_INTERPOSE_CORE_STATE_H
#define CM_INTERPOSE_CORE_STATE_H

#include <stdatomic.h>
#include <stdint.h>

#include "allocator/base/policy.h"
#include "allocator/cache.h"
#include "stats/region.h"

/*
 * What a forked child must not inherit, alone in a page that the kernel wipes in every child with
 * memory of its own (cm_process_wipe_on_fork). The start writes it; everybody else calls the
 * functions below.
 */
#define CM_PROCESS_PAGE 4096
extern union cm_process {
	struct {
		_Atomic(struct cm_cache *) cache;
		struct cm_region *region;
		_Atomic uint32_t phase;   /* of process.c, a futex */
		_Atomic int32_t starter;  /* id of the thread that runs the start */
		_Atomic uint32_t unusual; /* see unusual.h */
	};
	char page[CM_PROCESS_PAGE];
} cm_process __attribute__((visibility("hidden")));

/* The cache, or NULL before the start. */
static inline struct cm_cache *cm_process_cache_if_made(void)
{
	return atomic_load_explicit(&cm_process.cache, memory_order_acquire);
}

/* What an address is: CM_PLACE_FOREIGN before the start. */
static inline struct cm_place_info cm_process_lookup(uint64_t addr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct cm_place_info info = {.place = CM_PLACE_FOREIGN};

	if (cache)
		cm_cache_lookup(cache, addr, &info);
	return info;
}

/* The region, or NULL before the start and in a process that caches nothing. */
struct cm_region *cm_process_region(void);

/* The settings in effect, or NULL if there is no region. */
const struct cm_policy *cm_process_policy(void);

/* Writes both clocks into the region's header: two readings let a tool convert ticks to time. The
 * region exists. */
void cm_process_stamp(void);
void cm_process_stamp_start(struct cm_region *region);

/* For the start: makes region and settings known, before any other thread can ask for them. */
void cm_process_set(struct cm_region *region, const struct cm_policy *policy);

/* Wipes cm_process in every child made from now on that has memory of its own; kernels before 4.14
 * do not. */
void cm_process_wipe_on_fork(void);

/* In a forked child: as before the start. */
void cm_process_clear(void);

#endif
