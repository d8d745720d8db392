/* SPDX-License-Identifier: MIT */
/*
 * The checker behind every operation of the allocator, with the build option `invariants`.
 */
#ifndef CM_ALLOCATOR_CHECK_AFTER_H
#define CM_ALLOCATOR_CHECK_AFTER_H

#include <assert.h>
#include <errno.h>

#include "allocator/cache.h"

/* If it finds a fault, the operation that has just ended is the one to blame. */
static inline void cm_check_after(struct cm_cache *cache)
{
#if CM_INVARIANTS
	char why[200];

	assert(cm_cache_check(cache, why, sizeof(why)) != -EUCLEAN);
#else
	(void)cache;
#endif
}

#endif
