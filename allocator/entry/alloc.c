/* SPDX-License-Identifier: MIT */
/*
 * One request and one free, of device memory and of pinned memory: what ready memory serves is done
 * here, and the rest behind it.
 */
#include <errno.h>

#include "allocator/base/page_map.h"
#include "allocator/base/size_class.h"
#include "allocator/blocks/free.h"
#include "allocator/blocks/take.h"
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/entry/request.h"
#include "allocator/entry/slow_path.h"
#include "allocator/oom/oom.h"
#include "allocator/pinned/pinned.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/*
 * A first try, which takes the device's lock. As cm_heap_take_locked, but also -ENOENT if polling
 * comes first: for pending blocks (poll_policy.h), for a block that is kept whole
 * (fragmentation.h), or as CM_PENDING_BLOCKS of any size are pending. -EAGAIN: the heap drains.
 */
CM_ALWAYS_INLINE int take_first(struct cm_heap *heap, uint64_t size, uint64_t bytes,
				uint64_t *ret_addr)
{
	struct cm_device *device = heap->device;
	int err;

	cm_lock_acquire(&device->lock);
	err = CM_UNLIKELY(cm_heap_drains(heap))
		      ? -EAGAIN
		      : cm_take(heap, size, bytes, CM_TAKE_FIRST, CM_SCALAR_cache_hits, ret_addr);
	cm_lock_release(&device->lock);
	return err;
}

CM_ALWAYS_INLINE int alloc_device(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
				  uint64_t *ret_addr)
{
	uint64_t size;
	int err;

	if (CM_UNLIKELY(!bytes || bytes > CM_REQUEST_MAX))
		return -EINVAL;
	if (CM_UNLIKELY(cache->policy.mode != CM_MODE_CACHE))
		return cm_slow_path_alloc_direct(heap, bytes, ret_addr);
	size = CM_UNLIKELY(cache->rounds) ? cm_size_round(&cache->policy, bytes)
					  : cm_size_grains(bytes);
	err = take_first(heap, size, bytes, ret_addr);
	if (CM_LIKELY(err != -ENOENT))
		return err;
	return cm_slow_path_alloc(heap, size, bytes, ret_addr);
}

int cm_cache_alloc(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	int err = alloc_device(cache, heap, bytes, ret_addr);

	cm_check_after(cache);
	return err;
}

/* Whether the free has done all that there is to do. */
CM_ALWAYS_INLINE bool is_done(const struct cm_cache *cache, const struct cm_freed *freed)
{
	return freed->heap && !freed->unreclaimed_segment && cache->policy.sync != CM_SYNC_FREE;
}

int cm_cache_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	uint8_t page = cm_page_map_get(&cache->pages, addr);
	struct cm_device *device;
	struct cm_freed freed;
	int err = 0;

	/* One device owns most pages: no need to go round them all. */
	if (CM_LIKELY(page != CM_PAGE_NONE && page != CM_PAGE_MIXED)) {
		device = cache->device[page - 1];
		freed = cm_free_on_device(device, addr);
		if (CM_UNLIKELY(!is_done(cache, &freed)))
			err = cm_device_finish_free(device, addr, freed, ret_forward);
	} else {
		err = cm_cache_free_on_any(cache, addr, ret_forward);
	}
	cm_check_after(cache);
	return err;
}

int cm_cache_host_alloc(struct cm_cache *cache, struct cm_heap *heap, uint32_t kind, uint64_t bytes,
			uint64_t *ret_addr)
{
	int err = cm_pinned_alloc(heap, kind, bytes, ret_addr);

	if (CM_UNLIKELY(err == CM_DRIVER_OUT_OF_MEMORY)) {
		cm_pinned_note_oom(heap, bytes);
		cm_oom_show(heap);
	}
	cm_check_after(cache);
	return err;
}

int cm_cache_host_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	int err = cm_pinned_free(cache, addr, ret_forward);

	cm_check_after(cache);
	return err;
}
