/* SPDX-License-Identifier: MIT */
/*
 * The CUDA contexts of the process and their heaps. Every context that is made through our doors is
 * noted (noted.h), so that epochs capture the work of all of them; the one that is current at a
 * request gets a heap.
 */
#ifndef CM_INTERPOSE_DRIVER_CONTEXT_H
#define CM_INTERPOSE_DRIVER_CONTEXT_H

#include "allocator/state/state.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context_registry.h"
#include "interpose/driver/current.h"
#include "interpose/symbols/hooks.h"

/* Set where an epoch could miss work: a context beyond the table, or a green one, whose events
 * cover its own share of the device only. Then nothing is cached any more. */
extern _Atomic bool cm_context_uncountable __attribute__((visibility("hidden")));

/* The context's heap where it is the one that the thread has met last, else NULL: a look in place
 * of a search. A heap is never freed, and says whose it is. */
static inline struct cm_heap *cm_context_last_heap(uint64_t ctx)
{
	struct cm_heap *heap = cm_thread.heap;

	return CM_LIKELY(ctx && heap && cm_heap_ctx(heap) == ctx) ? heap : NULL;
}

/* The rest of the two below. */
struct cm_heap *cm_context_find_heap(struct cm_cache *cache, uint64_t ctx);
bool cm_context_serves(struct cm_cache *cache, uint64_t ctx);

/* The heap of the calling thread's current context, made where it has none yet; NULL where there is
 * no context, or none that can be cached. One driver call, which reads the thread's own state. */
static inline struct cm_heap *cm_context_heap(struct cm_cache *cache)
{
	const uint64_t ctx = cm_context_current();
	struct cm_heap *heap = cm_context_last_heap(ctx);

	if (CM_LIKELY(heap && !atomic_load_explicit(&cm_context_uncountable, memory_order_relaxed)))
		return heap;
	return cm_context_find_heap(cache, ctx);
}

/* A call in the current context was answered so: after an error that stays with a context nothing
 * more is cached in it, and the program hears it from the driver in every call. */
void cm_context_note_error(CUresult res);

/* Whether the driver may refuse to take memory back at this moment: a capture is active, no context
 * that is known is current, or it has answered with an error of its own. Costs what
 * cm_context_current costs. */
static inline bool cm_context_may_forbid(struct cm_cache *cache)
{
	const uint64_t ctx = cm_context_current();
	const struct cm_heap *heap = cm_context_last_heap(ctx);

	if (CM_UNLIKELY(cm_capture_is_active()))
		return true;
	if (CM_LIKELY(heap && !(cm_heap_flags(heap) & CM_HEAP_DRAINING)))
		return false;
	return !cm_context_serves(cache, ctx);
}

/*
 * The device row of the current context, or of a device by its ordinal: for those who count what
 * passes, also where nothing is cached. False: there is none, and while a capture is active none is
 * made, since to ask of a context may spoil the capture.
 */
bool cm_context_find_row(struct cm_cache *cache, uint32_t *ret_row);
bool cm_context_find_row_of(struct cm_cache *cache, int ordinal, uint32_t *ret_row);

/* For those who make contexts and end them. cm_registry_add, and what follows where there are too
 * many: nothing is cached any more. False: so it is. */
bool cm_context_note(CUcontext ctx, CUdevice device, enum cm_context_kind kind);
/* A noted context that nobody ends meanwhile gets a heap where others have theirs, so that its work
 * is in every epoch from now on. Where none has, the first request makes all. */
void cm_context_watch(CUcontext ctx);
/* The driver has just made the context: what is known by its handle is of another one, that has
 * ended past our doors, and is forgotten. */
void cm_context_forget_former(CUcontext ctx);
/* Some work may escape the epochs from now on. What is out stays right: it is given back whole. */
void cm_context_stop_caching(const char *why);
/* The context has ended; the contexts are locked where there is a cache. */
void cm_context_forget(struct cm_cache *cache, CUcontext ctx);

/* In a forked child, where no context is usable. */
void cm_context_forget_all(void);

#endif
