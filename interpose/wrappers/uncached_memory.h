/* SPDX-License-Identifier: MIT */
/*
 * Counts device memory outside the cache (allocator/entry/uncached.h), and keeps it below the limit
 * on the process. For calls inside the hook; without a cache nothing is counted. Thread-safe.
 */
#ifndef CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H
#define CM_INTERPOSE_WRAPPERS_UNCACHED_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/entry/uncached.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"

/* A request outside the cache, from before the driver is asked until it has answered. */
struct cm_uncached_request {
	struct cm_cache *cache; /* NULL: nothing is counted */
	struct cm_uncached_memory memory;
	bool limited; /* the limit on the process has refused it, not the driver */
};

#define CM_CURRENT_DEVICE ((CUdevice)-1) /* that of the current context */

/* Begins a request for memory of a device. `ctx` takes the memory along when it ends; 0: no context
 * does. `bytes` is what the request takes from the limit, as far as its arguments say; 0:
 * nothing. */
struct cm_uncached_request cm_uncached_begin(CUdevice device, uint64_t ctx,
					     enum cm_uncached_kind kind, uint64_t bytes);

/* Whether the driver may be asked: takes the bytes from the limit, once. */
bool cm_uncached_may_ask(struct cm_uncached_request *request);

/* The driver has allocated `bytes` with this name: counts them. */
void cm_uncached_settle(struct cm_uncached_request *request, enum cm_uncached_name name,
			uint64_t key, uint64_t bytes);

/*
 * The request was not served: gives back what was taken from the limit and, if the error is out of
 * memory, counts and reports a request of `asked` bytes. Records the stack of the calling thread.
 */
void cm_uncached_fail(const struct cm_uncached_request *request, CUresult res, uint64_t asked);

/* `call`, unless the limit refuses the request; for CM_RETRY_AFTER_TRIM. */
#define CM_UNCACHED_ASK(request, call) \
	(cm_uncached_may_ask(request) ? (call) : CUDA_ERROR_OUT_OF_MEMORY)

/*
 * A wrapper that passes on a request for `asked` bytes, with retries. `name` and `key` identify the
 * memory in its free, `bytes` is its size; all are evaluated after a success.
 */
#define CM_WRAP_UNCACHED_ALLOC(symbol, params, pass, kind, asked, name, key, bytes)         \
	CUresult cm_wrap_##symbol params                                                    \
	{                                                                                   \
		struct cm_uncached_request request;                                         \
		uint64_t wanted;                                                            \
		bool recorded;                                                              \
		CUresult res;                                                               \
                                                                                            \
		if (!cm_hook_enter())                                                       \
			return cm_real.symbol pass;                                         \
		wanted = asked;                                                             \
		request = cm_uncached_begin(CM_CURRENT_DEVICE, cm_context_current(), kind,  \
					    wanted);                                        \
		/* The driver may lack something other than so many bytes of the device. */ \
		CM_RETRY_AFTER_TRIM(request.limited ? wanted : 0, res,                      \
				    CM_UNCACHED_ASK(&request, cm_real.symbol pass));        \
		recorded = cm_record_begin(CM_CONTEXT_STATE);                               \
		if (res == CUDA_SUCCESS)                                                    \
			cm_uncached_settle(&request, name, (uint64_t)(key), bytes);         \
		else                                                                        \
			cm_uncached_fail(&request, res, wanted);                            \
		cm_record_end(recorded);                                                    \
		cm_hook_leave();                                                            \
		return res;                                                                 \
	}

/* Around a driver call that frees memory: takes the entry before the call, as the driver may
 * allocate the address again at once; drops it or puts it back according to `res`, which is
 * returned. */
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
