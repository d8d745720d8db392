/* SPDX-License-Identifier: MIT */
#include "interpose/driver/capture.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/base/lock.h"
#include "allocator/cache.h"
#include "interpose/core/cancel.h"
#include "interpose/core/state.h"
#include "interpose/core/unusual.h"
#include "interpose/driver/current.h"
#include "interpose/driver/graph_kernels.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"

#define STREAMS_MAX 256

#define BEGUN_BY "cuStreamBeginCapture" /* or a newer form of it */

/*
 * `cm_captures` counts the program's captures, `calls_inside` our own driver calls that must not
 * meet one. Each side first raises its own number and then reads the other's, both sequentially
 * consistent, so at least one of two racing sides sees the other.
 */
_Atomic int cm_captures;
static _Atomic int calls_inside;

/* The captures counted by `cm_captures`, guarded by the lock. One that does not fit stays active
 * for ever: then the library only passes calls on, which is always right. */
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_CAPTURE);
static struct capture {
	CUstream stream;
	uint64_t ctx;
	CUgraph graph;    /* the one that it adds to; NULL: it makes a graph */
	uint64_t devices; /* on which its kernels run (graph_kernels.h) */
	uint64_t changes; /* cm_graph_kernels_changes at its begin */
	cuuint64_t id;    /* the driver's; 0: it does not tell */
	uint32_t thread;  /* the thread that began it */
	bool used;
} captures[STREAMS_MAX];

void cm_capture_gate_leave(void)
{
	int saved = errno;

	if (atomic_fetch_sub(&calls_inside, 1) == 1 && atomic_load(&cm_captures))
		(void)syscall(SYS_futex, &calls_inside, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL,
			      0);
	errno = saved;
}

bool cm_capture_gate_enter(void)
{
	atomic_fetch_add(&calls_inside, 1);
	if (!atomic_load(&cm_captures))
		return true;
	cm_capture_gate_leave();
	return false;
}

/* Before a capture begins: waits until no call of ours is under way. */
static void announce_capture(void)
{
	int saved = errno, n;

	atomic_fetch_add(&cm_captures, 1);
	atomic_fetch_add(&cm_process.unusual, 1);
	while ((n = atomic_load(&calls_inside)) != 0)
		(void)syscall(SYS_futex, &calls_inside, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

static void withdraw_capture(void)
{
	atomic_fetch_sub(&cm_process.unusual, 1);
	if (atomic_fetch_sub(&cm_captures, 1) > 1)
		return;
	cm_record_cause_ended(CM_CAUSE_CAPTURE);
	/* A capture that began before that line found the cause recorded. */
	if (atomic_load(&cm_captures))
		cm_record_cause(CM_CAUSE_CAPTURE, BEGUN_BY, false);
}

/* The handle that names a stream for both kinds of functions: only 0 means two streams.
 * CU_STREAM_PER_THREAD is one name for a stream of each thread and context. */
static CUstream stream_name(CUstream stream, bool per_thread)
{
	return !stream && per_thread ? CU_STREAM_PER_THREAD : stream;
}

static void put_capture(const struct capture *capture)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX && captures[i].used; i++)
		;
	if (i < STREAMS_MAX)
		captures[i] = *capture;
	cm_lock_release(&lock);
}

/* The context of the stream, with which its capture ends: for the special streams the thread's
 * own. */
static uint64_t capture_context(CUstream stream)
{
	const bool special = !stream || stream == CU_STREAM_LEGACY ||
			     stream == CU_STREAM_PER_THREAD;
	CUcontext ctx;

	if (special || cm_real.cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
		return cm_context_current();
	return (uintptr_t)ctx;
}

/* Removes the capture of the stream, as the calling thread names it, from the table. False if there
 * is none. */
static bool take_capture(CUstream stream, struct capture *ret_capture)
{
	const bool own = stream == CU_STREAM_PER_THREAD;
	const uint64_t ctx = own ? capture_context(stream) : 0;
	const uint32_t self = cm_thread_id();
	bool found = false;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX && !found; i++) {
		found = captures[i].used && captures[i].stream == stream &&
			(!own || (captures[i].thread == self && captures[i].ctx == ctx));
		if (found) {
			*ret_capture = captures[i];
			captures[i].used = false;
		}
	}
	cm_lock_release(&lock);
	return found;
}

/* The id of the capture that the stream takes part in; 0: none, or the driver does not tell. */
static cuuint64_t capture_id(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	cuuint64_t id = 0;
	CUresult res;

	res = per_thread
		      ? cm_real.cuStreamGetCaptureInfo_v2_ptsz(stream, &status, &id, NULL, NULL,
							       NULL)
		      : cm_real.cuStreamGetCaptureInfo_v2(stream, &status, &id, NULL, NULL, NULL);
	return res == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? id : 0;
}

CUresult cm_capture_status(CUstream stream, bool per_thread, CUstreamCaptureStatus *ret_status)
{
	return per_thread ? cm_real.cuStreamIsCapturing_ptsz(stream, ret_status)
			  : cm_real.cuStreamIsCapturing(stream, ret_status);
}

bool cm_capture_takes_work(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status;

	return cm_capture_is_active() &&
	       cm_capture_status(stream, per_thread, &status) == CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void cm_capture_note_work(CUstream stream, bool per_thread, uint64_t devices)
{
	const cuuint64_t id = capture_id(stream, per_thread);
	size_t i;

	if (!id)
		return;
	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX; i++)
		if (captures[i].used && captures[i].id == id) {
			captures[i].devices |= devices;
			if (captures[i].graph)
				cm_graph_kernels_add(captures[i].graph, devices);
		}
	cm_lock_release(&lock);
}

bool cm_capture_is_own(void)
{
	const uint32_t self = cm_thread_id();
	bool own = false;
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX && !own; i++)
		own = captures[i].used && captures[i].thread == self;
	cm_lock_release(&lock);
	return own;
}

void cm_capture_forget_context(uint64_t ctx)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX; i++)
		if (captures[i].used && captures[i].ctx == ctx) {
			captures[i].used = false;
			withdraw_capture();
		}
	cm_lock_release(&lock);
}

void cm_capture_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock, CM_LOCK_CAPTURE, 0);
	for (i = 0; i < STREAMS_MAX; i++)
		captures[i].used = false;
	atomic_store(&cm_captures, 0);
	atomic_fetch_and(&cm_process.unusual, ~CM_UNUSUAL_CAPTURES);
	atomic_store(&calls_inside, 0);
	cm_graph_kernels_forget_all();
}

/* `graph` as in struct capture. */
static CUresult finish_begin(CUresult res, CUstream stream, bool per_thread, CUgraph graph)
{
	struct capture capture = {.stream = stream_name(stream, per_thread),
				  .graph = graph,
				  .thread = cm_thread_id(),
				  .used = true};

	if (res != CUDA_SUCCESS) {
		withdraw_capture();
		return res;
	}
	capture.ctx = capture_context(stream);
	capture.changes = cm_graph_kernels_changes();
	capture.id = capture_id(stream, per_thread);
	capture.devices = capture.id ? cm_device_of_context(capture.ctx) : CM_ALL_ORDINALS;
	if (graph)
		cm_graph_kernels_add(graph, capture.devices);
	put_capture(&capture);
	cm_record_cause(CM_CAUSE_CAPTURE, BEGUN_BY, true);
	return res;
}

/* A failed end leaves the capture active (wrong thread) or not (invalidated): the driver knows
 * which. If it does not answer, as in a thread without a context, the capture counts as active. */
static CUresult finish_end(CUresult res, CUstream stream, bool per_thread, const CUgraph *graph)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult query_result = CUDA_SUCCESS;
	struct capture capture;
	bool taken;

	if (res != CUDA_SUCCESS)
		query_result = cm_capture_status(stream, per_thread, &status);
	taken = query_result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE &&
		take_capture(stream_name(stream, per_thread), &capture);
	if (taken)
		withdraw_capture();
	if (taken && res == CUDA_SUCCESS && graph && !capture.graph)
		cm_graph_kernels_note_captured(*graph, capture.devices, capture.changes);
	return res;
}

/* Destroying a stream ends its capture. The capture is removed before the call: as soon as the
 * driver has destroyed the stream, another thread may get the same handle and capture it. */
CUresult cm_capture_destroy_stream(CUstream stream, CUresult (*real)(CUstream stream))
{
	struct capture capture;
	bool taken;
	CUresult res;

	cm_cancel_hold();
	taken = take_capture(stream, &capture);
	res = real(stream);
	if (taken && res == CUDA_SUCCESS)
		withdraw_capture();
	else if (taken)
		put_capture(&capture);
	cm_cancel_allow();
	return res;
}

static void close_open_epoch(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		cm_cache_before_capture(cache);
}

/* The wrapper of a function that begins a capture; `pass` are the arguments' names, `graph` as in
 * struct capture. Not cancellable: a capture that was announced and never entered would stay active
 * for ever. A thread inside the hook enters none, so the graph that it makes is not known. */
#define BEGIN_AS(symbol, per_thread, graph, params, pass)                           \
	CUresult cm_wrap_##symbol params                                            \
	{                                                                           \
		CUresult res;                                                       \
                                                                                    \
		if (!cm_hook_enter()) {                                             \
			if (graph)                                                  \
				cm_graph_kernels_add(graph, CM_ALL_ORDINALS);       \
			return cm_real.symbol pass;                                 \
		}                                                                   \
		cm_cancel_hold();                                                   \
		close_open_epoch();                                                 \
		announce_capture();                                                 \
		res = finish_begin(cm_real.symbol pass, stream, per_thread, graph); \
		cm_cancel_allow();                                                  \
		cm_hook_leave();                                                    \
		return res;                                                         \
	}

#define BEGIN(symbol, per_thread, params, pass)    BEGIN_AS(symbol, per_thread, NULL, params, pass)
#define BEGIN_TO(symbol, per_thread, params, pass) BEGIN_AS(symbol, per_thread, graph, params, pass)

#define END(symbol, per_thread)                                                             \
	CUresult cm_wrap_##symbol(CUstream stream, CUgraph *graph)                          \
	{                                                                                   \
		CUresult res;                                                               \
                                                                                            \
		if (!cm_hook_enter())                                                       \
			return cm_real.symbol(stream, graph);                               \
		cm_cancel_hold();                                                           \
		res = finish_end(cm_real.symbol(stream, graph), stream, per_thread, graph); \
		cm_cancel_allow();                                                          \
		cm_hook_leave();                                                            \
		return res;                                                                 \
	}

/* clang-format off */
BEGIN(cuStreamBeginCapture, false, (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_ptsz, true, (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_v2, false, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGIN(cuStreamBeginCapture_v2_ptsz, true, (CUstream stream, CUstreamCaptureMode mode),
      (stream, mode))
BEGIN_TO(cuStreamBeginCaptureToGraph, false,
	 (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
       size_t n, CUstreamCaptureMode mode),
      (stream, graph, nodes, edges, n, mode))
BEGIN_TO(cuStreamBeginCaptureToGraph_ptsz, true,
      (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
       size_t n, CUstreamCaptureMode mode),
      (stream, graph, nodes, edges, n, mode))
BEGIN_TO(cuStreamBeginRecaptureToGraph, false,
      (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback,
       void *data),
      (stream, mode, graph, callback, data))
BEGIN_TO(cuStreamBeginRecaptureToGraph_ptsz, true,
      (CUstream stream, CUstreamCaptureMode mode, CUgraph graph, CUgraphRecaptureCallback callback,
       void *data),
      (stream, mode, graph, callback, data))
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)
/* clang-format on */
