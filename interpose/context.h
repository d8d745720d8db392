/* SPDX-License-Identifier: MIT */
/*
 * The CUDA contexts of the process. Every context that is made through our doors is noted, so that
 * epochs capture the work of all of them; the one that is current at a request gets a heap.
 */
#ifndef CM_INTERPOSE_CONTEXT_H
#define CM_INTERPOSE_CONTEXT_H

#include "allocator/cache.h"
#include "interpose/hooks.h"

/* The heap of the calling thread's current context, made where it has none yet; NULL where there is
 * no context, or none that can be cached. One driver call, which reads the thread's own state. */
struct cm_heap *cm_context_heap(struct cm_cache *cache);

/* The current context, or 0. */
uint64_t cm_context_current(void);

/* A call in the current context was answered so: after an error that stays with a context nothing
 * more is cached in it, and the program hears it from the driver in every call. */
void cm_context_hear(CUresult res);

/* Whether the driver may refuse to take memory back at this moment: a capture is active, no context
 * that is known is current, or it has answered with an error of its own. Costs what
 * cm_context_current costs. */
bool cm_context_may_forbid(struct cm_cache *cache);

/*
 * The device row of the current context, or of a device by its ordinal: for those who count what
 * passes, also where nothing is cached. False: there is none, and while a capture is active none is
 * made, since to ask of a context may spoil the capture.
 */
bool cm_context_find_row(struct cm_cache *cache, uint32_t *ret_row);
bool cm_context_find_row_of(struct cm_cache *cache, int ordinal, uint32_t *ret_row);

/* Between the two `ctx` is current. 0, or the driver's answer where it can't be; no pop then. */
int cm_context_push(uint64_t ctx);
void cm_context_pop(void);

/* In a forked child, where no context is usable. */
void cm_context_forget_all(void);

#endif
