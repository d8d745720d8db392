/* SPDX-License-Identifier: MIT */
/*
 * What hooks.def declares, for those who write wrappers: the driver's original functions, one
 * wrapper a hook, and the guard that lets one call of the program be counted once.
 *
 *	CUresult cm_wrap_cuMemFree_v2(CUdeviceptr dptr)
 *	{
 *		CUresult res;
 *
 *		if (!cm_hook_enter())
 *			return cm_real.cuMemFree_v2(dptr);
 *		res = ...;
 *		cm_hook_leave();
 *		return res;
 *	}
 *
 * This header is the only one to include cuda.h, in the form that declares every ABI of every
 * function under the very name the driver exports: no macro turns cuMemAlloc into cuMemAlloc_v2.
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

#include "interpose/symbols/newer_cuda.h"

/* The CUDA version up to which hooks.def has every ABI of what it hooks. */
#define CM_HOOKS_VERSION 13050

_Static_assert(CUDA_VERSION >= 13000, "these CUDA headers are older than newer_cuda.h expects");

#define CM_HOOK_PTSZ     1u
#define CM_HOOK_REQUIRED 2u

#pragma GCC visibility push(hidden)

/*
 * The driver's own functions. A member can be called at any time from a wrapper: where the driver
 * has no such function it answers CUDA_ERROR_NOT_FOUND, and CUDA_ERROR_NOT_INITIALIZED where there
 * is no driver at all. interpose/symbols/real.c fills it in before a wrapper first runs.
 */
struct cm_real {
#define CM_HOOK(symbol, base, version, flags) __typeof__(symbol) *symbol;
#define CM_USE(symbol, base, version, flags)  __typeof__(symbol) *symbol;
#include "interpose/symbols/hooks.def"
};
extern struct cm_real cm_real;

/* What stands in for a function that the driver lacks. */
CUresult cm_real_missing(void);
#define cm_real_has(symbol) ((void (*)(void))cm_real.symbol != (void (*)(void))cm_real_missing)

/* The wrappers: written beside what they do, each with the prototype of its original. */
#define CM_HOOK(symbol, base, version, flags) __typeof__(symbol) cm_wrap_##symbol;
#include "interpose/symbols/hooks.def"

/* > 0 while this thread is inside the library: every wrapper then goes straight to its original. */
extern __thread unsigned int cm_hook_depth __attribute__((tls_model("initial-exec")));

/*
 * True, and the thread is inside, unless it was; pairs with cm_hook_leave() only where true. The
 * fences keep the compiler from moving what is done inside to the outside, where a signal handler
 * of the same thread would wait for its locks.
 */
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

#pragma GCC visibility pop

#endif
