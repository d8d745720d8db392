/* SPDX-License-Identifier: MIT */
/*
 * Hooks of work that may run without bound: kernels, graphs, host functions, waits for values. They
 * serve one purpose: an event recorded after a free and before such work covers no more than a
 * cudaFree would have waited for, so an ordered barrier behind it cannot hang a program that runs
 * without us. They never decide whether memory is idle. Thread-safe.
 */
#include "allocator/base/attr.h"
#include "allocator/cache.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context.h"
#include "interpose/driver/driver_ops.h"
#include "interpose/driver/graph_kernels.h"
#include "interpose/driver/graph_work.h"
#include "interpose/driver/host_work.h"
#include "interpose/driver/reach.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"

/* What is left to do for work that was announced. */
struct announced {
	bool counted;
	uint64_t returns; /* for should_retry */
};

/* This thread is about to submit work, whose effects the host sees or not. */
static struct announced announce_work(CUstream stream, bool per_thread, bool host_sees)
{
	struct cm_cache *cache;

	if (!cm_hook_enter())
		return (struct announced){0};
	cache = cm_process_cache_if_made();
	if (cache && cm_cache_wants_close(cache))
		cm_cache_before_work(cache);
	cm_work_note();
	if (CM_UNLIKELY(cm_reach_is_watched()))
		cm_reach_note_work(stream);
	if (cm_host_work_exists() && !host_sees)
		cm_host_work_before_other(stream, per_thread);
	cm_hook_leave();
	return (struct announced){true, cm_retry_returns()};
}

/* The driver has accepted work whose effects the host may see. */
static CM_NOINLINE void note_host_work(CUstream stream, bool per_thread)
{
	if (!cm_hook_enter())
		return;
	cm_host_work_note(stream, per_thread);
	cm_hook_leave();
}

/* Whether to submit again. The first launch of a kernel may have to load it, and take memory for
 * its stacks. A launch is also the first call that reports a failure of earlier work. */
static bool should_retry(CUresult res, CUstream stream, uint64_t *returns)
{
	bool released = false;

	if (!cm_hook_enter())
		return false;
	if (res == CUDA_ERROR_OUT_OF_MEMORY)
		released = cm_retry_trim_of(stream, *returns);
	else
		cm_context_note_error_of_stream(stream, res);
	*returns = cm_retry_returns();
	cm_hook_leave();
	return released;
}

/* What the host may see of work: of a kernel what it writes to managed or mapped memory, of a host
 * function everything, of a wait nothing. */
#define KERNEL       cm_host_work_has_kernels()
#define HOST         true
#define GRAPH(graph) cm_graph_work_reaches_host(graph)
#define NOTHING      false

/* The devices whose memory work names. Kernels reach no others than they were given access to. */
#define NO_MEMORY     UINT64_C(0)
#define WORD(addr)    cm_reach_of(addr)
#define WORDS(ops, n) cm_reach_of_words(ops, n)
#define NODES(graph)  cm_graph_work_named(graph)

/* A wrapper that announces the work and passes on, outside the hook: calls that the driver makes
 * meanwhile are still counted. */
#define WORK_AS(name, symbol, per_thread, params, pass, stream, host_sees, named)     \
	CUresult name params                                                          \
	{                                                                             \
		struct announced work = announce_work(stream, per_thread, host_sees); \
		struct cm_submission submission = {0};                                \
		int tries = CM_RETRY_MAX;                                             \
		CUresult res;                                                         \
                                                                                      \
		if (CM_UNLIKELY(cm_reach_is_watched()))                               \
			submission = cm_reach_begin(stream, named);                   \
		res = cm_real.symbol pass;                                            \
		while (CM_UNLIKELY(res != CUDA_SUCCESS) && tries-- &&                 \
		       should_retry(res, stream, &work.returns))                      \
			res = cm_real.symbol pass;                                    \
		cm_reach_end(submission);                                             \
		if (CM_LIKELY(work.counted))                                          \
			cm_work_end();                                                \
		if (res == CUDA_SUCCESS && cm_host_work_is_on() && (host_sees))       \
			note_host_work(stream, per_thread);                           \
		return res;                                                           \
	}
#define WORK(symbol, per_thread, params, pass, stream, host_sees, named) \
	WORK_AS(cm_wrap_##symbol, symbol, per_thread, params, pass, stream, host_sees, named)
#define WORK_BOTH(symbol, params, pass, stream, host_sees, named)   \
	WORK(symbol, false, params, pass, stream, host_sees, named) \
	WORK(symbol##_ptsz, true, params, pass, stream, host_sees, named)

/* clang-format off */
WORK(cuLaunch, false, (CUfunction f), (f), NULL, KERNEL, NO_MEMORY)
WORK(cuLaunchGrid, false, (CUfunction f, int width, int height), (f, width, height), NULL, KERNEL,
     NO_MEMORY)
WORK(cuLaunchGridAsync, false, (CUfunction f, int width, int height, CUstream stream),
     (f, width, height, stream), stream, KERNEL, NO_MEMORY)
static WORK_AS(launch_on_devices, cuLaunchCooperativeKernelMultiDevice, false,
	       (CUDA_LAUNCH_PARAMS *launches, unsigned int count, unsigned int flags),
	       (launches, count, flags), NULL, NOTHING, NO_MEMORY)
WORK_BOTH(cuLaunchKernel,
	  (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params,
	   void **extra),
	  (f, gx, gy, gz, bx, by, bz, shared, stream, params, extra), stream, KERNEL, NO_MEMORY)
WORK_BOTH(cuLaunchKernelEx,
	  (const CUlaunchConfig *config, CUfunction f, void **params, void **extra),
	  (config, f, params, extra), config ? config->hStream : NULL, KERNEL, NO_MEMORY)
WORK_BOTH(cuLaunchCooperativeKernel,
	  (CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
	   unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **params),
	  (f, gx, gy, gz, bx, by, bz, shared, stream, params), stream, KERNEL, NO_MEMORY)
static WORK_AS(launch_graph, cuGraphLaunch, false, (CUgraphExec graph, CUstream stream),
	       (graph, stream), stream, GRAPH(graph), NODES(graph))
static WORK_AS(launch_graph_ptsz, cuGraphLaunch_ptsz, true, (CUgraphExec graph, CUstream stream),
	       (graph, stream), stream, GRAPH(graph), NODES(graph))
WORK_BOTH(cuLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data), (stream, fn, data),
	  stream, HOST, NO_MEMORY)
WORK_BOTH(cuLaunchHostFunc_v2, (CUstream stream, CUhostFn fn, void *data, unsigned int mode),
	  (stream, fn, data, mode), stream, HOST, NO_MEMORY)
WORK_BOTH(cuStreamAddCallback,
	  (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
	  (stream, callback, data, flags), stream, HOST, NO_MEMORY)
WORK_BOTH(cuStreamWaitValue32,
	  (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
	  (stream, addr, value, flags), stream, NOTHING, WORD(addr))
WORK_BOTH(cuStreamWaitValue64,
	  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
	  (stream, addr, value, flags), stream, NOTHING, WORD(addr))
WORK_BOTH(cuStreamWaitValue32_v2,
	  (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
	  (stream, addr, value, flags), stream, NOTHING, WORD(addr))
WORK_BOTH(cuStreamWaitValue64_v2,
	  (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
	  (stream, addr, value, flags), stream, NOTHING, WORD(addr))
WORK_BOTH(cuStreamBatchMemOp,
	  (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
	  (stream, count, ops, flags), stream, KERNEL, WORDS(ops, count))
WORK_BOTH(cuStreamBatchMemOp_v2,
	  (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
	  (stream, count, ops, flags), stream, KERNEL, WORDS(ops, count))
WORK_BOTH(cuWaitExternalSemaphoresAsync,
	  (const CUexternalSemaphore *semaphores,
	   const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count, CUstream stream),
	  (semaphores, params, count, stream), stream, NOTHING, NO_MEMORY)

/* The driver has accepted a wait or a graph, which may have added work of the devices to a capture.
 * Also in a thread whose hook depth longjmp or cancellation left set. */
static CUresult note_captured(CUresult res, CUstream stream, bool per_thread, uint64_t devices)
{
	bool entered;

	if (res != CUDA_SUCCESS)
		return res;
	entered = cm_hook_enter();
	cm_capture_note_work(stream, per_thread, devices);
	if (entered)
		cm_hook_leave();
	return res;
}

/* A graph that is launched in a capture becomes a node of it. */
CUresult cm_wrap_cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
	const CUresult res = launch_graph(graph, stream);

	return CM_LIKELY(!cm_capture_is_active())
		       ? res
		       : note_captured(res, stream, false, cm_graph_work_devices(graph));
}

CUresult cm_wrap_cuGraphLaunch_ptsz(CUgraphExec graph, CUstream stream)
{
	const CUresult res = launch_graph_ptsz(graph, stream);

	return CM_LIKELY(!cm_capture_is_active())
		       ? res
		       : note_captured(res, stream, true, cm_graph_work_devices(graph));
}

/* Work of all streams of a context, or, NULL, of any context is about to be submitted. Returns
 * whether it was counted, and cm_work_end must follow. */
static bool note_work_in(CUcontext ctx)
{
	if (CM_LIKELY(!cm_reach_is_watched()))
		return false;
	cm_work_note();
	cm_reach_note_work_in(ctx);
	return true;
}

/* Each kernel names a stream of its own. */
CUresult cm_wrap_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launches,
						      unsigned int count, unsigned int flags)
{
	const bool counted = note_work_in(NULL);
	CUresult res;
	unsigned int i;

	res = launch_on_devices(launches, count, flags);
	if (CM_UNLIKELY(counted))
		cm_work_end();
	for (i = 0; res == CUDA_SUCCESS && cm_host_work_is_on() && KERNEL && i < count; i++)
		note_host_work(launches[i].hStream, false);
	return res;
}
/* clang-format on */

static uint64_t devices_of_stream(CUstream stream)
{
	return cm_device_of_context(cm_context_of_stream(stream));
}

/* Behind the event may be unbounded work of another device: the wait is such work, too. A stream
 * that waits for an event of a capture takes part in it from then on. */
#define WAIT(symbol, per_thread)                                                      \
	CUresult cm_wrap_##symbol(CUstream stream, CUevent event, unsigned int flags) \
	{                                                                             \
		const bool counted = cm_reach_is_watched();                           \
		CUresult res;                                                         \
                                                                                      \
		if (CM_UNLIKELY(counted)) {                                           \
			cm_work_note();                                               \
			cm_reach_note_work(stream);                                   \
		}                                                                     \
		res = cm_real.symbol(stream, event, flags);                           \
		if (CM_UNLIKELY(counted))                                             \
			cm_work_end();                                                \
		return CM_LIKELY(!cm_capture_is_active())                             \
			       ? res                                                  \
			       : note_captured(res, stream, per_thread,               \
					       devices_of_stream(stream));            \
	}

WAIT(cuStreamWaitEvent, false)
WAIT(cuStreamWaitEvent_ptsz, true)

CUresult cm_wrap_cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	const bool counted = note_work_in(ctx);
	CUresult res;

	res = cm_real.cuCtxWaitEvent(ctx, event);
	if (CM_UNLIKELY(counted))
		cm_work_end();
	return res;
}
