/* SPDX-License-Identifier: MIT */
/*
 * Hooks of stream-ordered memory. Memory from a pool is passed on and counted. A block of ours that
 * is freed in a stream goes to the cache as if it were freed now: it is reused only when all work
 * submitted before is done, on any stream, and the work that the stream-ordered free waits for was
 * submitted before. Thread-safe.
 */
#include "allocator/cache.h"
#include "allocator/state/limit.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/driver/host_memory_ends.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"
#include "interpose/wrappers/uncached_memory.h"

typedef CUresult free_fn(CUdeviceptr addr, CUstream stream);

/* The device whose pool serves a request that names none: that of the stream. */
static CUdevice device_of(CUstream stream)
{
	const struct cm_cache *cache = cm_process_cache_for_request();
	struct cm_known_context known;

	if (!stream || !cache || !cm_cache_has_devices(cache))
		return CM_CURRENT_DEVICE;
	known = cm_registry_read((CUcontext)(uintptr_t)cm_context_of_stream(stream));
	return known.ctx ? known.device : CM_CURRENT_DEVICE;
}

/* The pool outlives contexts. What a graph will allocate takes nothing from the limit now. */
static struct cm_uncached_request begin_request(CUdevice device, size_t bytes, CUstream stream,
						bool per_thread)
{
	return cm_uncached_begin(device, 0, CM_UNCACHED_ASYNC,
				 cm_capture_takes_work(stream, per_thread) ? 0 : bytes);
}

/* As cm_retry_trim. The driver does not tell the device of a pool: if that of the current context
 * has nothing to give, all others give what they have. */
static bool trim(CUdevice device, uint64_t bytes, uint64_t returns, bool from_pool)
{
	if (device != CM_CURRENT_DEVICE)
		return cm_retry_trim_on(device, bytes, returns);
	return cm_retry_trim(bytes, returns) || (from_pool && cm_retry_trim_all(bytes, returns));
}

/* A pool, unlike a stream, may belong to another device than the current context. */
static void settle_from_pool(struct cm_uncached_request *request, CUdeviceptr addr, size_t bytes)
{
	struct cm_uncached_memory *memory = &request->memory;
	const uint32_t guess = memory->device;
	int ordinal = 0;

	if (!cm_host_work_has_kernels() && cm_end_is_host(addr))
		cm_host_work_include_kernels();
	if (!request->cache)
		return;
	if (cm_real.cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr) !=
		    CUDA_SUCCESS ||
	    !cm_context_find_row_of(request->cache, ordinal, &memory->device))
		bytes = 0;
	if (memory->device != guess) {
		cm_cache_give_limit(request->cache, guess, memory->taken);
		memory->taken = 0;
	}
	cm_uncached_settle(request, CM_NAME_ADDRESS, addr, bytes);
}

static void settle(struct cm_uncached_request *request, CUdeviceptr addr, size_t bytes,
		   bool from_pool)
{
	if (request->memory.bytes && from_pool)
		settle_from_pool(request, addr, bytes);
	else if (request->memory.bytes)
		cm_uncached_settle(request, CM_NAME_ADDRESS, addr, bytes);
}

static CUresult free_cached(struct cm_cache *cache, const struct cm_place_info *info,
			    CUdeviceptr addr, CUstream stream, bool per_thread, free_fn *real)
{
	CUstreamCaptureStatus status;
	uint64_t forward = addr;
	CUresult res;
	bool recorded;
	int err;

	/* Not a live block: make the driver refuse an address at which no allocation starts. */
	if (info->place != CM_PLACE_LIVE)
		return real(info->segment_addr + 1, stream);
	res = cm_capture_status(stream, per_thread, &status);
	if (res != CUDA_SUCCESS)
		return res; /* an invalid stream, or one that cannot be used now */
	/* A graph may free only what a graph allocated: the driver refuses, as it does without
	 * us. */
	if (status != CU_STREAM_CAPTURE_STATUS_NONE)
		return real(info->segment_addr + 1, stream);
	/* What is not recycled goes to the driver, in the stream. An allocation of several blocks
	 * waits for the device, as the others may be in use elsewhere. */
	if (info->block_size == info->segment_size)
		cm_driver_free_in_stream((struct cm_stream_free){addr, stream, real});
	recorded = cm_record_begin(CM_CONTEXT_ALL);
	err = cm_cache_free(cache, addr, &forward);
	cm_record_end(recorded);
	cm_driver_free_in_stream((struct cm_stream_free){0});
	if (err < 0)
		return real(forward, stream);
	/* Natively this call does not wait for earlier work, unlike cuMemFree: no barrier may be
	 * laid behind that work. */
	cm_work_note();
	cm_work_end();
	return (CUresult)err;
}

static CUresult free_async(CUdeviceptr addr, CUstream stream, bool per_thread, free_fn *real)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct cm_place_info info;
	uint32_t taken;

	if (!cache || !addr)
		return real(addr, stream);
	cm_cache_lookup(cache, addr, &info);
	if (info.place != CM_PLACE_FOREIGN)
		return free_cached(cache, &info, addr, stream, per_thread, real);
	taken = cm_capture_takes_work(stream, per_thread)
			? 0
			: cm_uncached_begin_free(CM_NAME_ADDRESS, addr);
	return cm_uncached_finish(taken, real(addr, stream));
}

#define ALLOC(symbol, suffix, per_thread, params, pass, from_pool)                      \
	CUresult cm_wrap_##symbol##suffix params                                        \
	{                                                                               \
		struct cm_uncached_request request;                                     \
		CUdevice device;                                                        \
		bool recorded;                                                          \
		CUresult res;                                                           \
                                                                                        \
		if (!cm_hook_enter())                                                   \
			return cm_real.symbol##suffix pass;                             \
		device = (from_pool) ? CM_CURRENT_DEVICE : device_of(stream);           \
		request = begin_request(device, bytes, stream, per_thread);             \
		CM_RETRY_AFTER(trim(device, bytes, returns, from_pool), res,            \
			       CM_UNCACHED_ASK(&request, cm_real.symbol##suffix pass)); \
		recorded = cm_record_begin(CM_CONTEXT_STATE);                           \
		if (res == CUDA_SUCCESS)                                                \
			settle(&request, *addr, bytes, from_pool);                      \
		else                                                                    \
			cm_uncached_fail(&request, res, bytes);                         \
		cm_record_end(recorded);                                                \
		cm_hook_leave();                                                        \
		return res;                                                             \
	}

#define FREE(suffix, per_thread)                                                             \
	CM_WRAP(cuMemFreeAsync##suffix, (CUdeviceptr addr, CUstream stream), (addr, stream), \
		free_async(addr, stream, per_thread, cm_real.cuMemFreeAsync##suffix))

/* clang-format off */
#define ALLOC_DEFAULT(suffix, per_thread)                                          \
	ALLOC(cuMemAllocAsync, suffix, per_thread,                                 \
	      (CUdeviceptr *addr, size_t bytes, CUstream stream),                  \
	      (addr, bytes, stream), false)
#define ALLOC_FROM_POOL(suffix, per_thread)                                        \
	ALLOC(cuMemAllocFromPoolAsync, suffix, per_thread,                         \
	      (CUdeviceptr *addr, size_t bytes, CUmemoryPool pool, CUstream stream), \
	      (addr, bytes, pool, stream), true)

ALLOC_DEFAULT(, false)
ALLOC_DEFAULT(_ptsz, true)
ALLOC_FROM_POOL(, false)
ALLOC_FROM_POOL(_ptsz, true)
FREE(, false)
FREE(_ptsz, true)
/* clang-format on */
