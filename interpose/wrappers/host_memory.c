/* SPDX-License-Identifier: MIT */
/*
 * Hooks of pinned host memory. cuMemHostAlloc, cuMemAllocHost and cuMemFreeHost use the pinned
 * cache; cuMemHostRegister and cuMemHostUnregister are passed on and counted. What the cache does
 * not serve goes to the driver with the program's own arguments. Thread-safe.
 */
#include "allocator/cache.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"
#include "stats/tick.h"

_Static_assert(CM_HOST_PORTABLE == CU_MEMHOSTALLOC_PORTABLE &&
		       CM_HOST_MAPPED == CU_MEMHOSTALLOC_DEVICEMAP &&
		       CM_HOST_WRITECOMBINED == CU_MEMHOSTALLOC_WRITECOMBINED,
	       "the kinds are CUDA's flags");

/* While a capture is active, an unknown context stays unknown: querying it may invalidate the
 * capture. */
static struct cm_heap *find_heap(void)
{
	struct cm_cache *cache = cm_process_cache();

	if (!cache)
		return NULL;
	return cm_capture_is_active() ? cm_cache_find_heap(cache, cm_context_current())
				      : cm_context_heap(cache);
}

/* Makes a driver call that takes pages of the host, again after what the cache has of them has
 * returned. */
#define ASK(res, call) CM_RETRY_AFTER(cm_retry_trim_host(returns), res, call)

/* Of a request that went to the driver. */
static CUresult note_forwarded(CUresult res, size_t bytes)
{
	struct cm_heap *heap = res == CUDA_ERROR_OUT_OF_MEMORY ? find_heap() : NULL;
	bool recorded;

	if (!heap)
		return res;
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	cm_cache_report_host_oom(heap, bytes);
	cm_record_end(recorded);
	return res;
}

/* 0, a driver code > 0 for the program, or < 0: ask the driver. */
static int alloc_pinned(void **ptr, size_t bytes, uint32_t kind)
{
	struct cm_cache *cache = cm_process_cache_for_request();
	struct cm_heap *heap;
	uint64_t addr;
	bool recorded;
	int err;

	if (!cache || !ptr || cm_capture_is_active())
		return -1;
	heap = cm_context_heap(cache);
	if (!heap)
		return -1;
	recorded = cm_record_begin(CM_CONTEXT_STATE);
	err = cm_cache_host_alloc(cache, heap, kind, bytes, &addr);
	cm_record_end(recorded);
	if (!err)
		*ptr = (void *)(uintptr_t)addr;
	return err;
}

static CUresult alloc_with_flags(void **ptr, size_t bytes, unsigned int flags)
{
	int err = flags < CM_HOST_PLAIN ? alloc_pinned(ptr, bytes, flags) : -1;
	CUresult res;

	if (err < 0) {
		ASK(res, cm_real.cuMemHostAlloc(ptr, bytes, flags));
		err = (int)note_forwarded(res, bytes);
	}
	if (!err && flags & CU_MEMHOSTALLOC_DEVICEMAP)
		cm_host_work_include_kernels();
	return (CUresult)err;
}

static CUresult alloc_plain(void **ptr, size_t bytes)
{
	const int err = alloc_pinned(ptr, bytes, CM_HOST_PLAIN);
	CUresult res;

	if (err >= 0)
		return (CUresult)err;
	ASK(res, cm_real.cuMemAllocHost_v2(ptr, bytes));
	return note_forwarded(res, bytes);
}

/* See memory.c: nothing starts inside a block. */
static CUresult probe_pinned_free(void *ptr)
{
	CUresult res = cm_real.cuMemFreeHost((char *)ptr + 1);

	return res == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : res;
}

static CUresult free_pinned(void *ptr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t forward = (uintptr_t)ptr;
	CUresult res;
	bool recorded;
	int err;

	if (!cache || !ptr)
		return cm_real.cuMemFreeHost(ptr);
	if (cm_host_work_exists())
		(void)cm_context_await_host_work(
			cm_registry_read((CUcontext)(uintptr_t)cm_context_current()).device);
	res = cm_context_may_refuse_free(cache) ? probe_pinned_free(ptr) : CUDA_SUCCESS;
	if (res != CUDA_SUCCESS)
		return res;
	recorded = cm_record_begin(CM_CONTEXT_ALL);
	err = cm_cache_host_free(cache, (uintptr_t)ptr, &forward);
	cm_record_end(recorded);
	if (err >= 0)
		return (CUresult)err;
	return cm_real.cuMemFreeHost((void *)(uintptr_t)forward);
}

static void count_registered(void *ptr, size_t bytes, uint64_t ns)
{
	struct cm_heap *heap = find_heap();

	if (heap)
		cm_cache_host_add_registered(cm_process_cache(), heap, (uintptr_t)ptr, bytes, ns);
}

static CUresult register_pages(void *ptr, size_t bytes, unsigned int flags)
{
	const uint64_t start = cm_monotonic_ns();
	CUresult res;

	ASK(res, cm_real.cuMemHostRegister_v2(ptr, bytes, flags));
	(void)note_forwarded(res, bytes);
	if (res == CUDA_SUCCESS && flags & CU_MEMHOSTREGISTER_DEVICEMAP)
		cm_host_work_include_kernels();
	if (res == CUDA_SUCCESS)
		count_registered(ptr, bytes, cm_monotonic_ns() - start);
	return res;
}

static CUresult unregister_pages(void *ptr)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	const uint64_t addr = (uintptr_t)ptr;
	const uint64_t which = cache ? cm_cache_host_find_registered(cache, addr) : 0;
	const uint64_t start = cm_monotonic_ns();
	const CUresult res = cm_real.cuMemHostUnregister(ptr);

	if (res == CUDA_SUCCESS && which)
		cm_cache_host_remove_registered(cache, addr, which, cm_monotonic_ns() - start);
	return res;
}

/* clang-format off */
CM_WRAP(cuMemHostAlloc, (void **ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags),
	alloc_with_flags(ptr, bytes, flags))
CM_WRAP(cuMemAllocHost_v2, (void **ptr, size_t bytes), (ptr, bytes), alloc_plain(ptr, bytes))
CM_WRAP(cuMemFreeHost, (void *ptr), (ptr), free_pinned(ptr))
CM_WRAP(cuMemHostRegister_v2, (void *ptr, size_t bytes, unsigned int flags), (ptr, bytes, flags),
	register_pages(ptr, bytes, flags))
CM_WRAP(cuMemHostUnregister, (void *ptr), (ptr), unregister_pages(ptr))
/* clang-format on */
