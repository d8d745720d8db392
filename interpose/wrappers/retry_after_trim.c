/* SPDX-License-Identifier: MIT */
/*
 * The doors of what needs device memory but does not give the program any to free: code, graphs,
 * streams and events, the heap and the stacks of a context. Code is loaded lazily, as a rule by the
 * first call that names a function (CUDA Programming Guide, Lazy Loading), and natively a program
 * has what it freed for that.
 */
#include "interpose/wrappers/retry_after_trim.h"

#include "allocator/cache.h"
#include "allocator/reuse/epoch.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/process/process.h"

#define NAP_NS      UINT64_C(100000)   /* the first nap; the next ones are longer, */
#define NAP_MOST_NS UINT64_C(20000000) /* up to about this */

/* While a stream is captured nothing can be given back: its end is waited for where there is
 * something to give, but not for ever, as it may come only when this thread goes on. */
static void await_captures(struct cm_cache *cache, uint32_t row)
{
	const struct cm_driver_ops *ops = cm_driver_ops();
	const uint64_t end = ops->now_ns() + CM_STUCK_NS; /* as freed memory is waited for */
	uint64_t backoff = NAP_NS;

	while (cm_capture_is_active() && !cm_capture_is_own() && cm_cache_has_cached(cache, row) &&
	       ops->now_ns() < end)
		cm_ops_backoff(ops, &backoff, NAP_MOST_NS);
}

static bool make_on_row(struct cm_cache *cache, uint32_t row, uint64_t bytes, uint64_t returns)
{
	if (!cm_cache_may_have(cache, row, bytes))
		return false;
	await_captures(cache, row);
	return cm_cache_make_room_on(cache, row) || cm_cache_returns(cache) != returns;
}

uint64_t cm_retry_returns(void)
{
	const struct cm_cache *cache = cm_process_cache_if_made();

	return cache ? cm_cache_returns(cache) : 0;
}

bool cm_retry_trim(uint64_t bytes, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct cm_heap *heap = cache ? cm_cache_find_heap(cache, cm_context_current()) : NULL;

	return heap && make_on_row(cache, cm_heap_device(heap), bytes, returns);
}

bool cm_retry_trim_on(CUdevice device, uint64_t bytes, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache && make_on_row(cache, cm_cache_device_row(cache, device), bytes, returns);
}

/* A wrapper that passes on, with room; `pass` are its arguments' names. */
#define NEEDS_ROOM(symbol, params, pass) CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, (void)0)

/* clang-format off */
NEEDS_ROOM(cuModuleLoad, (CUmodule *module, const char *path), (module, path))
NEEDS_ROOM(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
NEEDS_ROOM(cuModuleLoadDataEx,
	   (CUmodule *module, const void *image, unsigned int n, CUjit_option *options,
	    void **values),
	   (module, image, n, options, values))
NEEDS_ROOM(cuModuleLoadFatBinary, (CUmodule *module, const void *image), (module, image))
NEEDS_ROOM(cuLibraryLoadData,
	   (CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
	    unsigned int jit_n, CUlibraryOption *options, void **values, unsigned int n),
	   (library, code, jit_options, jit_values, jit_n, options, values, n))
NEEDS_ROOM(cuLibraryLoadFromFile,
	   (CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values,
	    unsigned int jit_n, CUlibraryOption *options, void **values, unsigned int n),
	   (library, path, jit_options, jit_values, jit_n, options, values, n))
NEEDS_ROOM(cuFuncLoad, (CUfunction function), (function))
NEEDS_ROOM(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name),
	   (function, module, name))
NEEDS_ROOM(cuModuleGetGlobal_v2,
	   (CUdeviceptr *addr, size_t *bytes, CUmodule module, const char *name),
	   (addr, bytes, module, name))
NEEDS_ROOM(cuLibraryGetModule, (CUmodule *module, CUlibrary library), (module, library))
NEEDS_ROOM(cuLibraryGetGlobal,
	   (CUdeviceptr *addr, size_t *bytes, CUlibrary library, const char *name),
	   (addr, bytes, library, name))
NEEDS_ROOM(cuLibraryGetManaged,
	   (CUdeviceptr *addr, size_t *bytes, CUlibrary library, const char *name),
	   (addr, bytes, library, name))
NEEDS_ROOM(cuKernelGetFunction, (CUfunction *function, CUkernel kernel), (function, kernel))
NEEDS_ROOM(cuKernelGetAttribute,
	   (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
	   (value, attribute, kernel, device))
NEEDS_ROOM(cuKernelSetAttribute,
	   (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
	   (attribute, value, kernel, device))
NEEDS_ROOM(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
	   (kernel, config, device))
NEEDS_ROOM(cuFuncGetAttribute,
	   (int *value, CUfunction_attribute attribute, CUfunction function),
	   (value, attribute, function))
NEEDS_ROOM(cuFuncSetAttribute,
	   (CUfunction function, CUfunction_attribute attribute, int value),
	   (function, attribute, value))
NEEDS_ROOM(cuOccupancyMaxActiveBlocksPerMultiprocessor,
	   (int *blocks, CUfunction function, int threads, size_t shared),
	   (blocks, function, threads, shared))
NEEDS_ROOM(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	   (int *blocks, CUfunction function, int threads, size_t shared, unsigned int flags),
	   (blocks, function, threads, shared, flags))
NEEDS_ROOM(cuStreamCreate, (CUstream *stream, unsigned int flags), (stream, flags))
NEEDS_ROOM(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority),
	   (stream, flags, priority))
NEEDS_ROOM(cuEventCreate, (CUevent *event, unsigned int flags), (event, flags))
NEEDS_ROOM(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
NEEDS_ROOM(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
NEEDS_ROOM(cuGraphInstantiate,
	   (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
	   (exec, graph, node, log, log_bytes))
NEEDS_ROOM(cuGraphInstantiate_v2,
	   (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
	   (exec, graph, node, log, log_bytes))
NEEDS_ROOM(cuGraphInstantiateWithFlags,
	   (CUgraphExec *exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
NEEDS_ROOM(cuGraphInstantiateWithParams,
	   (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	   (exec, graph, params))
NEEDS_ROOM(cuGraphInstantiateWithParams_ptsz,
	   (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	   (exec, graph, params))
NEEDS_ROOM(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
/* clang-format on */
