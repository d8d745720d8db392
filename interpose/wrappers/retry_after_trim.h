/* SPDX-License-Identifier: MIT */
/*
 * Retries driver calls that failed for lack of device memory after the cache has released memory.
 * For calls inside the hook (hooks.h). Nothing is released while a capture is active; if another
 * thread captures, the end of the capture is waited for, up to CM_STUCK_NS. Thread-safe.
 */
#ifndef CM_INTERPOSE_WRAPPERS_RETRY_AFTER_TRIM_H
#define CM_INTERPOSE_WRAPPERS_RETRY_AFTER_TRIM_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* Read this before the call that may fail: memory released from here on justifies a retry. */
uint64_t cm_retry_returns(void);

/*
 * Releases cached memory for a call that needs `bytes` (0: unknown, as always for work in a
 * stream): of the device of the current context, of that of a stream, of a named device, or of all
 * devices for a call whose device is not known. Waits for freed blocks. Returns false if a retry
 * makes no sense: nothing was released, not even by another thread since cm_retry_returns, or the
 * device never has that much.
 */
bool cm_retry_trim(uint64_t bytes, uint64_t returns);
bool cm_retry_trim_of(CUstream stream, uint64_t returns);
bool cm_retry_trim_on(CUdevice device, uint64_t bytes, uint64_t returns);
bool cm_retry_trim_all(uint64_t bytes, uint64_t returns);

/* The same for a call that wants pages of the host. Does not wait for captures. */
bool cm_retry_trim_host(uint64_t returns);

/* At most this many retries: other threads may take the released memory each time. */
#define CM_RETRY_MAX 8

/* Makes the driver call `call`, with result `res`, again while `trim` releases memory. */
#define CM_RETRY_AFTER(trim, res, call)                                         \
	do {                                                                    \
		uint64_t returns;                                               \
		int tries = CM_RETRY_MAX;                                       \
                                                                                \
		do {                                                            \
			returns = cm_retry_returns();                           \
			res = (call);                                           \
		} while (res == CUDA_ERROR_OUT_OF_MEMORY && tries-- && (trim)); \
	} while (0)

#define CM_RETRY_AFTER_TRIM(bytes, res, call) \
	CM_RETRY_AFTER(cm_retry_trim(bytes, returns), res, call)

#define CM_RETRY_AFTER_TRIM_ON(device, bytes, res, call) \
	CM_RETRY_AFTER(cm_retry_trim_on(device, bytes, returns), res, call)

/* A wrapper that passes on, with retries, and evaluates `then` after a success. `pass` are the
 * arguments' names. */
#define CM_WRAP_RETRY_AFTER(trim, symbol, params, pass, then)   \
	CUresult cm_wrap_##symbol params                        \
	{                                                       \
		CUresult res;                                   \
                                                                \
		if (!cm_hook_enter())                           \
			return cm_real.symbol pass;             \
		CM_RETRY_AFTER(trim, res, cm_real.symbol pass); \
		if (res == CUDA_SUCCESS)                        \
			then;                                   \
		cm_hook_leave();                                \
		return res;                                     \
	}
#define CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, then) \
	CM_WRAP_RETRY_AFTER(cm_retry_trim(0, returns), symbol, params, pass, then)

#endif
