/* SPDX-License-Identifier: MIT */
/*
 * Counts device memory outside the cache (allocator/entry/uncached.h). For calls inside the hook;
 * without a cache nothing is counted. Thread-safe.
 */
#ifndef CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H
#define CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H

#include <stdint.h>

#include "allocator/entry/uncached.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"

/* Counts memory of the current context, with which it ends. */
void cm_uncached_note(enum cm_uncached_kind kind, enum cm_uncached_name name, uint64_t key,
		      uint64_t bytes);

/* The driver has refused `bytes` for the current context, or for a device: counts and reports it.
 * Records the stack of the calling thread. */
void cm_uncached_report_oom(enum cm_uncached_kind kind, uint64_t bytes);
void cm_uncached_report_oom_on(CUdevice device, enum cm_uncached_kind kind, uint64_t bytes);

/*
 * A wrapper that passes on, with retries. After a success it evaluates `note`, which counts the
 * memory; if memory is out it reports a request of `asked` bytes.
 */
#define CM_WRAP_UNCACHED_ALLOC(symbol, params, pass, kind, asked, note) \
	CUresult cm_wrap_##symbol params                                \
	{                                                               \
		bool recorded;                                          \
		CUresult res;                                           \
                                                                        \
		if (!cm_hook_enter())                                   \
			return cm_real.symbol pass;                     \
		CM_RETRY_AFTER_TRIM(0, res, cm_real.symbol pass);       \
		recorded = cm_record_begin(CM_CONTEXT_STATE);           \
		if (res == CUDA_SUCCESS)                                \
			note;                                           \
		else if (res == CUDA_ERROR_OUT_OF_MEMORY)               \
			cm_uncached_report_oom(kind, asked);            \
		cm_record_end(recorded);                                \
		cm_hook_leave();                                        \
		return res;                                             \
	}

/* Around a driver call that frees memory: takes the entry before the call, as the driver may hand
 * out the address again at once; drops it or puts it back according to `res`, which is returned. */
uint32_t cm_uncached_begin_free(enum cm_uncached_name name, uint64_t key);
CUresult cm_uncached_finish(uint32_t taken, CUresult res);

/* A wrapper that frees counted memory by `handle`. */
#define CM_WRAP_UNCACHED_FREE(symbol, type, name)                                    \
	CUresult cm_wrap_##symbol(type handle)                                       \
	{                                                                            \
		uint32_t taken;                                                      \
		CUresult res;                                                        \
                                                                                     \
		if (!cm_hook_enter())                                                \
			return cm_real.symbol(handle);                               \
		taken = cm_uncached_begin_free(name, (uint64_t)(uintptr_t)(handle)); \
		res = cm_uncached_finish(taken, cm_real.symbol(handle));             \
		cm_hook_leave();                                                     \
		return res;                                                          \
	}

#endif
