/* SPDX-License-Identifier: MIT */
/*
 * The CUDA contexts of the process and their heaps. Every context that a hook sees is registered
 * (context_registry.h) and gets a heap, so that epochs cover the work of all of them. Thread-safe;
 * calls the driver unless it says otherwise.
 */
#ifndef CM_INTERPOSE_DRIVER_CONTEXT_H
#define CM_INTERPOSE_DRIVER_CONTEXT_H

#include "allocator/state/state.h"
#include "interpose/core/unusual.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context_registry.h"
#include "interpose/driver/current.h"
#include "interpose/symbols/hooks.h"

/* cm_context_heap for a thread that used another heap last, or none. */
struct cm_heap *cm_context_find_heap(struct cm_cache *cache, uint64_t ctx);

/* The heap of the current context, made at its first use. NULL: no context is current, or it
 * cannot be cached. One driver call, which reads the thread's own state. The thread's last heap
 * is tried first: heaps are never freed, and a heap names its context. */
static inline struct cm_heap *cm_context_heap(struct cm_cache *cache)
{
	const uint64_t ctx = cm_context_current();
	struct cm_heap *heap = cm_thread.heap;

	if (CM_LIKELY(ctx && heap && cm_heap_ctx(heap) == ctx &&
		      !cm_unusual_is(CM_UNUSUAL_STOPPED)))
		return heap;
	return cm_context_find_heap(cache, ctx);
}

/* Takes note of a driver result in the current context: after a sticky error nothing more is cached
 * there, and the program gets the error from the driver in every call. */
void cm_context_note_error(CUresult res);
/* The same in a context that need not be current. */
void cm_context_note_error_of(uint64_t ctx, CUresult res);
/* The same of work for a stream: the error is that of the stream's context. */
void cm_context_note_error_of_stream(CUstream stream, CUresult res);
/* Waits for the work of a device whose effects the host can see (host_work.h), and takes note of an
 * error that the wait has found. False: a capture did not let it wait. */
bool cm_context_await_host_work(CUdevice device);

/* Whether the driver might refuse a free now: a capture is active, no known context is current,
 * or the context has a sticky error. Costs one cm_context_current. */
bool cm_context_may_refuse_free(struct cm_cache *cache);

/* The device row of the current context, or of a device by its ordinal, for counting calls that are
 * passed on. False if there is none; while a capture is active none is made, because querying a
 * context may invalidate the capture. */
bool cm_context_find_row(struct cm_cache *cache, uint32_t *ret_row);
bool cm_context_find_row_of(struct cm_cache *cache, int ordinal, uint32_t *ret_row);

/* cm_registry_add, for the hooks that create contexts. Returns false, and stops caching, if there
 * are too many. */
bool cm_context_register(CUcontext ctx, CUdevice device, enum cm_context_kind kind);
/* Gives a registered context a heap if other contexts already have heaps, so that every later
 * epoch covers its work. Otherwise the first allocation makes the heaps of all contexts. The
 * caller keeps the context alive. */
void cm_context_track(CUcontext ctx);
/* The driver has just created the context. Forgets an earlier one of the same handle, which was
 * destroyed without going through a hook. */
void cm_context_forget_stale(CUcontext ctx);
/* Stops caching for good, because epochs may miss work from now on; logs `why` once. Blocks in
 * use stay valid; each segment returns to the driver as a whole. */
void cm_context_stop_caching(const char *why);
/* Forgets a destroyed context. If there is a cache, the caller holds its context lock. */
void cm_context_forget(struct cm_cache *cache, CUcontext ctx);

/* In a forked child, where no context is usable. */
void cm_context_forget_all(void);

#endif
