/* SPDX-License-Identifier: MIT */
/*
 * Requests of device memory with any policy and size, and of pinned memory. The path of most
 * requests is in blocks/take.h.
 */
#include <errno.h>

#include "allocator/base/size_class.h"
#include "allocator/blocks/take.h"
#include "allocator/cache.h"
#include "allocator/check/after.h"
#include "allocator/entry/slow_path.h"
#include "allocator/oom/oom.h"
#include "allocator/pinned/pinned.h"
#include "allocator/state/state.h"

static int alloc_device(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
			uint64_t *ret_addr)
{
	uint64_t size;
	int err;

	if (!bytes || bytes > CM_REQUEST_MAX)
		return -EINVAL;
	if (cache->policy.mode != CM_MODE_CACHE)
		return cm_slow_path_alloc_direct(heap, bytes, ret_addr);
	size = cm_size_round(&cache->policy, bytes);
	err = cm_take_first(heap, cm_thread_id(), size, bytes, false, ret_addr);
	return err == -ENOENT ? cm_slow_path_alloc(heap, size, bytes, ret_addr) : err;
}

int cm_cache_alloc(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr)
{
	int err = alloc_device(cache, heap, bytes, ret_addr);

	cm_check_after(cache);
	return err;
}

/* Not inlined: its report would stay on the stack of all requests. */
CM_NOINLINE void cm_cache_report_host_oom(struct cm_heap *heap, uint64_t bytes)
{
	struct cm_oom oom;

	cm_pinned_note_oom(heap, bytes);
	cm_oom_note_pinned(heap, bytes, &oom);
	cm_oom_tell(heap->cache, &oom);
}

int cm_cache_alloc_freed(struct cm_cache *cache, struct cm_heap *heap, uint64_t bytes,
			 uint64_t *ret_addr)
{
	int err = -ENOENT;

	if (bytes && bytes <= CM_REQUEST_MAX)
		err = cm_slow_path_take_freed(heap, cm_size_round(&cache->policy, bytes), bytes,
					      ret_addr);
	cm_check_after(cache);
	return err;
}

int cm_cache_host_alloc(struct cm_cache *cache, struct cm_heap *heap, uint32_t kind, uint64_t bytes,
			uint64_t *ret_addr)
{
	int err = cm_pinned_alloc(heap, kind, bytes, ret_addr);

	if (CM_UNLIKELY(err == CM_DRIVER_OUT_OF_MEMORY))
		cm_cache_report_host_oom(heap, bytes);
	cm_check_after(cache);
	return err;
}

int cm_cache_host_free(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward)
{
	int err = cm_pinned_free(cache, addr, ret_forward);

	cm_check_after(cache);
	return err;
}
