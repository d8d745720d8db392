/* SPDX-License-Identifier: MIT */
/*
 * The calling thread's current context, that of a stream, and which driver errors outlast the call
 * that reported them. Thread-safe; the calls read or change the thread's own state only, and do
 * not block.
 */
#ifndef CM_INTERPOSE_DRIVER_CURRENT_H
#define CM_INTERPOSE_DRIVER_CURRENT_H

#include "allocator/base/attr.h"
#include "interpose/symbols/hooks.h"

/* The current context, or 0. */
static inline uint64_t cm_context_current(void)
{
	CUcontext ctx = NULL;

	if (CM_UNLIKELY(cm_real.cuCtxGetCurrent(&ctx) != CUDA_SUCCESS))
		return 0;
	return (uintptr_t)ctx;
}

/* The context of a stream; 0: none. The default streams belong to the current context. For another
 * stream the driver is asked, unless it is the last one that the thread named. */
uint64_t cm_context_of_stream(CUstream stream);

/* A stream is about to be destroyed, or a context with its streams: their handles may be reused. */
void cm_context_forget_streams(void);

/* Makes `ctx` current until the pop. 0, or the driver's code; then there is nothing to pop. */
int cm_context_push(uint64_t ctx);
void cm_context_pop(void);

/* Whether the error is sticky: it stays with the context, or with the process. */
bool cm_context_is_sticky(CUresult res);

#endif
