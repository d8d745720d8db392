/* SPDX-License-Identifier: MIT */
/*
 * Keeps all tables unchanged for a moment, so that they can be copied or checked.
 */

#include "allocator/cache.h"
#include "allocator/state/shards.h"
#include "allocator/state/state.h"

/* A device that is added meanwhile has no memory as yet. */
void cm_cache_hold(struct cm_cache *cache) CM_UNCHECKED
{
	uint32_t i;

	cm_lock_acquire(&cache->pinned.lock);
	cache->held = atomic_load(&cache->devices);
	for (i = 0; i < cache->held; i++)
		if (cm_device_is_first(cache->device[i]))
			cm_shards_stop(cache->device[i]);
	cm_lock_acquire(&cache->tables);
}

void cm_cache_resume(struct cm_cache *cache) CM_UNCHECKED
{
	uint32_t i;

	cm_lock_release(&cache->tables);
	for (i = cache->held; i-- > 0;)
		if (cm_device_is_first(cache->device[i]))
			cm_shards_resume(cache->device[i]);
	cm_lock_release(&cache->pinned.lock);
}
