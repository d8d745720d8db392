/* SPDX-License-Identifier: MIT */
#include "interpose/capture.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "allocator/lock.h"
#include "interpose/hooks.h"

#define STREAMS_MAX 256

/*
 * `active` counts captures from before the driver's begin until after its end, `inside` our own
 * calls. Each side first raises its own number and then reads the other's, both sequentially
 * consistent, so at least one of two that meet sees the other.
 */
static _Atomic int active;
static _Atomic int inside;

/* The streams behind `active`, guarded by the lock. Those that find no room are active for ever:
 * the library then only passes on, which is always right. */
static struct cm_lock lock;
static struct capture {
	CUstream stream;
	uint64_t ctx;
	bool per_thread; /* the handle is to be read as the _ptsz functions do */
	bool used;
} captures[STREAMS_MAX];

bool cm_capture_is_active(void)
{
	return atomic_load_explicit(&active, memory_order_acquire) != 0;
}

static void leave(void)
{
	int saved = errno;

	if (atomic_fetch_sub(&inside, 1) == 1 && atomic_load(&active))
		(void)syscall(SYS_futex, &inside, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
	errno = saved;
}

bool cm_capture_gate_enter(void)
{
	atomic_fetch_add(&inside, 1);
	if (!atomic_load(&active))
		return true;
	leave();
	return false;
}

void cm_capture_gate_leave(void)
{
	leave();
}

/* A capture is about to begin: waits until none of our own calls is under way. */
static void announce(void)
{
	int saved = errno, n;

	atomic_fetch_add(&active, 1);
	while ((n = atomic_load(&inside)) != 0)
		(void)syscall(SYS_futex, &inside, FUTEX_WAIT_PRIVATE, n, NULL, NULL, 0);
	errno = saved;
}

static void withdraw(void)
{
	atomic_fetch_sub(&active, 1);
}

static struct capture *find(CUstream stream, bool per_thread)
{
	size_t i;

	for (i = 0; i < STREAMS_MAX; i++)
		if (captures[i].used && captures[i].stream == stream &&
		    captures[i].per_thread == per_thread)
			return &captures[i];
	return NULL;
}

static void add(CUstream stream, bool per_thread)
{
	CUcontext ctx = NULL;
	size_t i;

	(void)cm_real.cuCtxGetCurrent(&ctx);
	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX && captures[i].used; i++)
		;
	if (i < STREAMS_MAX)
		captures[i] = (struct capture){stream, (uintptr_t)ctx, per_thread, true};
	cm_lock_release(&lock);
}

/* The stream is no longer being captured; nothing where it was not. */
static void drop(CUstream stream, bool per_thread)
{
	struct capture *capture;

	cm_lock_acquire(&lock);
	capture = find(stream, per_thread);
	if (capture)
		capture->used = false;
	cm_lock_release(&lock);
	if (capture)
		withdraw();
}

void cm_capture_forget_context(uint64_t ctx)
{
	size_t i;

	cm_lock_acquire(&lock);
	for (i = 0; i < STREAMS_MAX; i++)
		if (captures[i].used && captures[i].ctx == ctx) {
			captures[i].used = false;
			withdraw();
		}
	cm_lock_release(&lock);
}

void cm_capture_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock);
	for (i = 0; i < STREAMS_MAX; i++)
		captures[i].used = false;
	atomic_store(&active, 0);
	atomic_store(&inside, 0);
}

static CUresult begun(CUresult res, CUstream stream, bool per_thread)
{
	if (res == CUDA_SUCCESS)
		add(stream, per_thread);
	else
		withdraw();
	return res;
}

/* A failed end may leave the capture going (a wrong thread), or not (an invalidated one): the
 * driver says which. */
static CUresult ended(CUresult res, CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (res != CUDA_SUCCESS)
		(void)(per_thread ? cm_real.cuStreamIsCapturing_ptsz(stream, &status)
				  : cm_real.cuStreamIsCapturing(stream, &status));
	if (status == CU_STREAM_CAPTURE_STATUS_NONE)
		drop(stream, per_thread);
	return res;
}

/* The wrapper of a function that begins a capture; `pass` are its arguments' names. */
#define BEGIN(symbol, per_thread, params, pass)                       \
	CUresult cm_wrap_##symbol params                              \
	{                                                             \
		CUresult res;                                         \
                                                                      \
		if (!cm_hook_enter())                                 \
			return cm_real.symbol pass;                   \
		announce();                                           \
		res = begun(cm_real.symbol pass, stream, per_thread); \
		cm_hook_leave();                                      \
		return res;                                           \
	}

#define END(symbol, per_thread)                                                 \
	CUresult cm_wrap_##symbol(CUstream stream, CUgraph *graph)              \
	{                                                                       \
		CUresult res;                                                   \
                                                                                \
		if (!cm_hook_enter())                                           \
			return cm_real.symbol(stream, graph);                   \
		res = ended(cm_real.symbol(stream, graph), stream, per_thread); \
		cm_hook_leave();                                                \
		return res;                                                     \
	}

#define DESTROY(symbol)                                \
	CUresult cm_wrap_##symbol(CUstream stream)     \
	{                                              \
		CUresult res;                          \
                                                       \
		if (!cm_hook_enter())                  \
			return cm_real.symbol(stream); \
		res = cm_real.symbol(stream);          \
		if (res == CUDA_SUCCESS)               \
			drop(stream, false);           \
		cm_hook_leave();                       \
		return res;                            \
	}

/* clang-format off */
BEGIN(cuStreamBeginCapture, false, (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_ptsz, true, (CUstream stream), (stream))
BEGIN(cuStreamBeginCapture_v2, false, (CUstream stream, CUstreamCaptureMode mode), (stream, mode))
BEGIN(cuStreamBeginCapture_v2_ptsz, true, (CUstream stream, CUstreamCaptureMode mode),
      (stream, mode))
BEGIN(cuStreamBeginCaptureToGraph, false,
      (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
       size_t n, CUstreamCaptureMode mode),
      (stream, graph, nodes, edges, n, mode))
BEGIN(cuStreamBeginCaptureToGraph_ptsz, true,
      (CUstream stream, CUgraph graph, const CUgraphNode *nodes, const CUgraphEdgeData *edges,
       size_t n, CUstreamCaptureMode mode),
      (stream, graph, nodes, edges, n, mode))
END(cuStreamEndCapture, false)
END(cuStreamEndCapture_ptsz, true)
DESTROY(cuStreamDestroy)
DESTROY(cuStreamDestroy_v2)
/* clang-format on */
