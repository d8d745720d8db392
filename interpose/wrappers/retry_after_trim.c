/* SPDX-License-Identifier: MIT */
/*
 * Hooks of calls that take device memory but return none to the program: code, graphs, streams and
 * events, the heap and the stacks of a context. Code is loaded lazily, usually by the first call
 * that names a function (CUDA Programming Guide, Lazy Loading). Without us, the memory that the
 * program has freed would be available for it.
 */
#include "interpose/wrappers/retry_after_trim.h"
#include "allocator/base/gate.h"

#include "allocator/cache.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/driver/graph_kernels.h"
#include "interpose/driver/graph_work.h"
#include "interpose/driver/host_work.h"
#include "interpose/process/process.h"

#define PAUSE_NS     UINT64_C(100000)   /* the first pause; later ones double, */
#define PAUSE_MAX_NS UINT64_C(20000000) /* up to about this */

/* Waits while a capture keeps the cache from releasing memory, but not for ever: the capture may
 * end only when this thread goes on. */
static void await_captures(struct cm_cache *cache, uint32_t row)
{
	const struct cm_driver_ops *ops = cm_driver_ops();
	const uint64_t end = ops->now_ns() +
			     CM_STUCK_NS; /* the limit for waiting for freed blocks */
	uint64_t backoff = PAUSE_NS;

	while (cm_capture_is_active() && !cm_capture_is_own() && cm_cache_has_cached(cache, row) &&
	       ops->now_ns() < end)
		cm_ops_backoff(ops, &backoff, PAUSE_MAX_NS);
}

static bool trim_row(struct cm_cache *cache, uint32_t row, uint64_t bytes, uint64_t returns)
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

static bool trim_of(uint64_t ctx, uint64_t bytes, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct cm_heap *heap = cache ? cm_cache_find_heap(cache, ctx) : NULL;

	return heap && trim_row(cache, cm_heap_device(heap), bytes, returns);
}

bool cm_retry_trim(uint64_t bytes, uint64_t returns)
{
	return trim_of(cm_context_current(), bytes, returns);
}

bool cm_retry_trim_of(CUstream stream, uint64_t returns)
{
	return trim_of(cm_context_of_stream(stream), 0, returns);
}

bool cm_retry_trim_on(CUdevice device, uint64_t bytes, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache && trim_row(cache, cm_cache_device_row(cache, device), bytes, returns);
}

bool cm_retry_trim_host(uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache && (cm_cache_make_host_room(cache, cm_context_current()) ||
			 cm_cache_returns(cache) != returns);
}

static bool trim_rows(struct cm_cache *cache, uint64_t rows, uint64_t bytes, uint64_t returns)
{
	bool released = false;

	for (; rows; rows &= rows - 1)
		released = trim_row(cache, (uint32_t)__builtin_ctzll(rows), bytes, returns) ||
			   released;
	return released;
}

bool cm_retry_trim_all(uint64_t bytes, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache && trim_rows(cache, cm_cache_all_rows(cache), bytes, returns);
}

/* Of these devices, a bit each by their ordinals: code and graphs need not be of the current
 * context. */
static bool trim_devices(uint64_t devices, uint64_t returns)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return cache && trim_rows(cache, cm_cache_rows_of_devices(cache, devices), 0, returns);
}

/* A wrapper that passes on, with retries; `pass` are the arguments' names. */
#define WRAP(symbol, params, pass) CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, (void)0)

/* The same for what takes memory of a stream's device. */
#define UPLOADS(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER(cm_retry_trim_of(stream, returns), symbol, params, pass, (void)0)

/* The same for what takes memory of a function's device, and of one that it names. */
#define OF_FUNCTION(symbol, params, pass)                                                       \
	CM_WRAP_RETRY_AFTER(trim_devices(cm_device_of_kernel(function, NULL), returns), symbol, \
			    params, pass, (void)0)
#define ON_DEVICE(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER(cm_retry_trim_on(device, 0, returns), symbol, params, pass, (void)0)

/* The same for what makes an executable graph, whose kernels may be of several devices. */
#define INSTANTIATES(symbol, params, pass)                                                        \
	CM_WRAP_RETRY_AFTER(trim_devices(devices_of_graph(graph), returns), symbol, params, pass, \
			    note_graph(exec, graph))

/* The same for what may take memory of any device, as what is loaded into all contexts
 * (CUDA_MODULE_LOADING=EAGER). */
#define OF_ALL(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER(cm_retry_trim_all(0, returns), symbol, params, pass, (void)0)

/* The same for what tells the program of a module, which is of the current context. */
#define LOADS(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, cm_graph_kernels_note_module(*module))

/* The same for what finds a variable, which kernels and the host may share. */
#define FINDS_VARIABLE(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, note_variable(addr))

/* The same for a pool, of a device or of the host. */
#define MAKES_POOL(symbol, params, pass) \
	CM_WRAP_RETRY_AFTER(trim_for_pool(props, returns), symbol, params, pass, (void)0)

static bool trim_for_pool(const CUmemPoolProps *props, uint64_t returns)
{
	return props && props->location.type == CU_MEM_LOCATION_TYPE_DEVICE
		       ? cm_retry_trim_on(props->location.id, 0, returns)
		       : cm_retry_trim_host(returns);
}

static uint64_t devices_of_graph(CUgraph graph)
{
	return cm_graph_kernels_devices(graph) | cm_device_of_context(cm_context_current());
}

static void note_graph(const CUgraphExec *exec, CUgraph graph)
{
	if (exec)
		cm_graph_work_note(*exec, graph);
}

static void note_variable(const CUdeviceptr *addr)
{
	unsigned int managed = 0;

	if (addr &&
	    cm_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, *addr) ==
		    CUDA_SUCCESS &&
	    managed)
		cm_host_work_include_kernels();
}

/* clang-format off */
LOADS(cuModuleLoad, (CUmodule *module, const char *path), (module, path))
LOADS(cuModuleLoadData, (CUmodule *module, const void *image), (module, image))
LOADS(cuModuleLoadDataEx,
	   (CUmodule *module, const void *image, unsigned int n, CUjit_option *options,
	    void **values),
	   (module, image, n, options, values))
LOADS(cuModuleLoadFatBinary, (CUmodule *module, const void *image), (module, image))
OF_ALL(cuLibraryLoadData,
	   (CUlibrary *library, const void *code, CUjit_option *jit_options, void **jit_values,
	    unsigned int jit_n, CUlibraryOption *options, void **values, unsigned int n),
	   (library, code, jit_options, jit_values, jit_n, options, values, n))
OF_ALL(cuLibraryLoadFromFile,
	   (CUlibrary *library, const char *path, CUjit_option *jit_options, void **jit_values,
	    unsigned int jit_n, CUlibraryOption *options, void **values, unsigned int n),
	   (library, path, jit_options, jit_values, jit_n, options, values, n))
OF_FUNCTION(cuFuncLoad, (CUfunction function), (function))
WRAP(cuModuleGetFunction, (CUfunction *function, CUmodule module, const char *name),
	   (function, module, name))
FINDS_VARIABLE(cuModuleGetGlobal_v2,
	   (CUdeviceptr *addr, size_t *bytes, CUmodule module, const char *name),
	   (addr, bytes, module, name))
LOADS(cuLibraryGetModule, (CUmodule *module, CUlibrary library), (module, library))
FINDS_VARIABLE(cuLibraryGetGlobal,
	   (CUdeviceptr *addr, size_t *bytes, CUlibrary library, const char *name),
	   (addr, bytes, library, name))
FINDS_VARIABLE(cuLibraryGetManaged,
	   (CUdeviceptr *addr, size_t *bytes, CUlibrary library, const char *name),
	   (addr, bytes, library, name))
CM_WRAP_RETRY_AFTER_TRIM(cuKernelGetFunction, (CUfunction *function, CUkernel kernel),
	   (function, kernel), cm_graph_kernels_note_function(*function))
ON_DEVICE(cuKernelGetAttribute,
	   (int *value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device),
	   (value, attribute, kernel, device))
ON_DEVICE(cuKernelSetAttribute,
	   (CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device),
	   (attribute, value, kernel, device))
ON_DEVICE(cuKernelSetCacheConfig, (CUkernel kernel, CUfunc_cache config, CUdevice device),
	   (kernel, config, device))
OF_FUNCTION(cuFuncGetAttribute,
	   (int *value, CUfunction_attribute attribute, CUfunction function),
	   (value, attribute, function))
OF_FUNCTION(cuFuncSetAttribute,
	   (CUfunction function, CUfunction_attribute attribute, int value),
	   (function, attribute, value))
OF_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessor,
	   (int *blocks, CUfunction function, int threads, size_t shared),
	   (blocks, function, threads, shared))
OF_FUNCTION(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
	   (int *blocks, CUfunction function, int threads, size_t shared, unsigned int flags),
	   (blocks, function, threads, shared, flags))
WRAP(cuStreamCreate, (CUstream *stream, unsigned int flags), (stream, flags))
WRAP(cuStreamCreateWithPriority, (CUstream *stream, unsigned int flags, int priority),
	   (stream, flags, priority))
WRAP(cuEventCreate, (CUevent *event, unsigned int flags), (event, flags))
OF_ALL(cuGreenCtxStreamCreate,
	   (CUstream *stream, CUgreenCtx green, unsigned int flags, int priority),
	   (stream, green, flags, priority))
MAKES_POOL(cuMemPoolCreate, (CUmemoryPool *pool, const CUmemPoolProps *props), (pool, props))
OF_ALL(cuMulticastCreate,
	   (CUmemGenericAllocationHandle *object, const CUmulticastObjectProp *props),
	   (object, props))
ON_DEVICE(cuMulticastAddDevice, (CUmemGenericAllocationHandle object, CUdevice device),
	   (object, device))
OF_ALL(cuMulticastBindMem,
	   (CUmemGenericAllocationHandle object, size_t at, CUmemGenericAllocationHandle memory,
	    size_t offset, size_t bytes, unsigned long long flags),
	   (object, at, memory, offset, bytes, flags))
ON_DEVICE(cuMulticastBindMem_v2,
	   (CUmemGenericAllocationHandle object, CUdevice device, size_t at,
	    CUmemGenericAllocationHandle memory, size_t offset, size_t bytes,
	    unsigned long long flags),
	   (object, device, at, memory, offset, bytes, flags))
OF_ALL(cuMulticastBindAddr,
	   (CUmemGenericAllocationHandle object, size_t at, CUdeviceptr addr, size_t bytes,
	    unsigned long long flags),
	   (object, at, addr, bytes, flags))
ON_DEVICE(cuMulticastBindAddr_v2,
	   (CUmemGenericAllocationHandle object, CUdevice device, size_t at, CUdeviceptr addr,
	    size_t bytes, unsigned long long flags),
	   (object, device, at, addr, bytes, flags))
UPLOADS(cuGraphUpload, (CUgraphExec exec, CUstream stream), (exec, stream))
UPLOADS(cuGraphUpload_ptsz, (CUgraphExec exec, CUstream stream), (exec, stream))
INSTANTIATES(cuGraphInstantiate,
	   (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
	   (exec, graph, node, log, log_bytes))
INSTANTIATES(cuGraphInstantiate_v2,
	   (CUgraphExec *exec, CUgraph graph, CUgraphNode *node, char *log, size_t log_bytes),
	   (exec, graph, node, log, log_bytes))
INSTANTIATES(cuGraphInstantiateWithFlags,
	   (CUgraphExec *exec, CUgraph graph, unsigned long long flags), (exec, graph, flags))
INSTANTIATES(cuGraphInstantiateWithParams,
	   (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	   (exec, graph, params))
INSTANTIATES(cuGraphInstantiateWithParams_ptsz,
	   (CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params),
	   (exec, graph, params))
WRAP(cuCtxSetLimit, (CUlimit limit, size_t value), (limit, value))
/* clang-format on */
