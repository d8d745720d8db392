/* SPDX-License-Identifier: MIT */
/*
 * The library's state in this process: made once, at the first wrapped CUDA call that needs it, and
 * given up on fork. Until then the library has read nothing, written nothing and started nothing.
 */
#ifndef CM_INTERPOSE_PROCESS_H
#define CM_INTERPOSE_PROCESS_H

#include "allocator/cache.h"
#include "allocator/policy.h"
#include "stats/region.h"

/*
 * The cache, made at the first call; NULL where everything is to be passed on: mode off, a failed
 * start, or a call that arrives from inside the start itself. After the first call one load.
 * errno is preserved.
 */
struct cm_cache *cm_process_cache(void);

/* The settings in effect, or NULL where cm_process_cache() is NULL. */
const struct cm_policy *cm_process_policy(void);

/* The region, or NULL where cm_process_cache() is NULL. */
struct cm_region *cm_process_region(void);

/* The cache if it is there already; never makes it. For those who only look. */
struct cm_cache *cm_process_cache_if_made(void);

/* Reads both clocks again into the region's header: two readings turn ticks into time. */
void cm_process_stamp(void);

#endif
