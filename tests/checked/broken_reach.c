/* SPDX-License-Identifier: MIT */
/* Work that names memory of another device is not announced: nobody waits for it. */
#include "allocator/cache.h"

struct cm_submission __wrap_cm_cache_begin_reach(struct cm_cache *cache, uint64_t ctx,
						 uint64_t named);

struct cm_submission __wrap_cm_cache_begin_reach(struct cm_cache *cache, uint64_t ctx,
						 uint64_t named)
{
	(void)cache;
	(void)ctx;
	(void)named;
	return (struct cm_submission){0};
}
