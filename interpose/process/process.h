/* SPDX-License-Identifier: MIT */
/*
 * The library's state in this process: made once, at the first wrapped CUDA call that needs it, and
 * given up on fork. Until then the library has read nothing, written nothing and started nothing.
 */
#ifndef CM_INTERPOSE_PROCESS_PROCESS_H
#define CM_INTERPOSE_PROCESS_PROCESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/policy.h"
#include "allocator/cache.h"
#include "stats/region.h"

/* What a forked child must not inherit: see process.c. For the functions below alone. */
#define CM_PROCESS_PAGE 4096
extern union cm_process {
	struct {
		_Atomic(struct cm_cache *) cache;
		struct cm_region *region;
		_Atomic uint32_t phase;  /* of process.c, a futex */
		_Atomic int32_t starter; /* the thread that starts */
	};
	char page[CM_PROCESS_PAGE];
} cm_process __attribute__((visibility("hidden")));

/* The cache if it is there already; never makes it. For those who only look. */
static inline struct cm_cache *cm_process_cache_if_made(void)
{
	return atomic_load_explicit(&cm_process.cache, memory_order_acquire);
}

/* Makes it, or waits for another thread that does. */
struct cm_cache *cm_process_start(void);

/*
 * The cache, made at the first call; NULL where everything is to be passed on: mode off, a failed
 * start, or a call that arrives from inside the start itself. After the first call one load.
 * errno is preserved.
 */
static inline struct cm_cache *cm_process_cache(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return CM_LIKELY(cache != NULL) ? cache : cm_process_start();
}

/*
 * The same for a request, which comes before the driver has said a word: while CUDA does not work
 * in the process nothing is started, and the driver refuses. So a forked child that asks all the
 * same leaves no region behind, and has no thread that would keep it alive.
 */
struct cm_cache *cm_process_start_for_request(void);
static inline struct cm_cache *cm_process_cache_for_request(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return CM_LIKELY(cache != NULL) ? cache : cm_process_start_for_request();
}

/* The settings in effect, or NULL where cm_process_cache() is NULL. */
const struct cm_policy *cm_process_policy(void);

/* The region, or NULL where cm_process_cache() is NULL. */
struct cm_region *cm_process_region(void);

/* From here on a forked child is freed of what its parent held, which the start sees to by itself:
 * for those who hold a lock across a call of the driver before it. */
void cm_process_watch_forks(void);

/* Reads both clocks again into the region's header: two readings turn ticks into time. */
void cm_process_stamp(void);

#endif
