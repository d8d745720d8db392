/* SPDX-License-Identifier: MIT */
/*
 * What hooks.def declares, for the wrappers: the driver's original functions, the prototypes of the
 * wrappers, and the guard that makes one call of the program count once.
 *
 * This is the only header that includes cuda.h, in the form that declares every ABI under the name
 * that the driver exports: no macro turns cuMemAlloc into cuMemAlloc_v2.
 */
#ifndef CM_INTERPOSE_SYMBOLS_HOOKS_H
#define CM_INTERPOSE_SYMBOLS_HOOKS_H

#ifdef __cuda_cuda_h__
#error "include interpose/symbols/hooks.h instead of cuda.h"
#endif
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "allocator/base/attr.h"
#include "interpose/symbols/newer_cuda.h"

/* hooks.def lists every ABI of the hooked functions up to this CUDA version. */
#define CM_HOOKS_VERSION 13050

_Static_assert(CUDA_VERSION >= 13000, "these CUDA headers are older than newer_cuda.h expects");

#define CM_HOOK_PTSZ     1u
#define CM_HOOK_REQUIRED 2u

#pragma GCC visibility push(hidden)

/*
 * The driver's own functions. Every member can be called at any time: it returns
 * CUDA_ERROR_NOT_FOUND if the driver has no such function, and CUDA_ERROR_NOT_INITIALIZED if there
 * is no driver. real.c fills it in before the first wrapper runs.
 */
struct cm_real {
#define CM_HOOK(symbol, base, version, flags) __typeof__(symbol) *symbol;
#define CM_USE(symbol, base, version, flags)  __typeof__(symbol) *symbol;
#include "interpose/symbols/hooks.def"
};
extern struct cm_real cm_real;

/* Stands in for a function that the driver lacks. */
CUresult cm_real_missing(void);
#define cm_real_has(symbol) ((void (*)(void))cm_real.symbol != (void (*)(void))cm_real_missing)

/* The wrappers, each with the prototype of its original. */
#define CM_HOOK(symbol, base, version, flags) __typeof__(symbol) cm_wrap_##symbol;
#include "interpose/symbols/hooks.def"

/* > 0 while this thread is inside the library: each wrapper then calls its original at once. */
extern __thread unsigned int cm_hook_depth __attribute__((tls_model("initial-exec")));

/* Returns true and marks the thread as inside, unless it was: only then cm_hook_leave() follows.
 * The fences keep the compiler from moving work out of the pair, where a signal handler of the same
 * thread would wait for its locks. */
static inline bool cm_hook_enter(void)
{
	if (cm_hook_depth)
		return false;
	cm_hook_depth = 1;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static inline void cm_hook_leave(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	cm_hook_depth = 0;
}

/* A wrapper that evaluates `call` inside the hook. `pass` are the arguments' names. */
#define CM_WRAP(symbol, params, pass, call)         \
	CUresult cm_wrap_##symbol params            \
	{                                           \
		CUresult res;                       \
                                                    \
		if (CM_UNLIKELY(!cm_hook_enter()))  \
			return cm_real.symbol pass; \
		res = (call);                       \
		cm_hook_leave();                    \
		return res;                         \
	}

#pragma GCC visibility pop

#endif
