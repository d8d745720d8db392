/* SPDX-License-Identifier: MIT */
/*
 * Room for what passes by the cache. Driver calls that need device memory of their own fail where
 * the cache holds it; then it is given back and the call is made once more. To be used inside the
 * hook (hooks.h); nothing is given back while a capture is active, whose end is waited for where
 * another thread has begun it.
 */
#ifndef CM_INTERPOSE_WRAPPERS_RETRY_AFTER_TRIM_H
#define CM_INTERPOSE_WRAPPERS_RETRY_AFTER_TRIM_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* To be read before the call that may fail: what goes back from here on is room for it. */
uint64_t cm_retry_returns(void);

/*
 * Gives cached memory of a device back, that of the current context or a named one, for who wants
 * `bytes` of it; 0: nobody knows how many. Waits for what was freed. False: there was none, not
 * even some that another thread has given back since cm_retry_returns, or the device never has so
 * much.
 */
bool cm_retry_trim(uint64_t bytes, uint64_t returns);
bool cm_retry_trim_on(CUdevice device, uint64_t bytes, uint64_t returns);

/* So often at most, as others may be faster each time and turn their own memory over. */
#define CM_RETRY_MAX 8

/* `res` is the answer of the driver call `call`, which is made again while room can be made. */
#define CM_RETRY_AFTER(make, res, call)                                         \
	do {                                                                    \
		uint64_t returns;                                               \
		int tries = CM_RETRY_MAX;                                       \
                                                                                \
		do {                                                            \
			returns = cm_retry_returns();                           \
			res = (call);                                           \
		} while (res == CUDA_ERROR_OUT_OF_MEMORY && tries-- && (make)); \
	} while (0)

#define CM_RETRY_AFTER_TRIM(bytes, res, call) \
	CM_RETRY_AFTER(cm_retry_trim(bytes, returns), res, call)

#define CM_RETRY_AFTER_TRIM_ON(device, bytes, res, call) \
	CM_RETRY_AFTER(cm_retry_trim_on(device, bytes, returns), res, call)

/* A wrapper that passes on, with room, and then does what is to be done after a success. `pass` are
 * its arguments' names. */
#define CM_WRAP_RETRY_AFTER_TRIM(symbol, params, pass, then)      \
	CUresult cm_wrap_##symbol params                          \
	{                                                         \
		CUresult res;                                     \
                                                                  \
		if (!cm_hook_enter())                             \
			return cm_real.symbol pass;               \
		CM_RETRY_AFTER_TRIM(0, res, cm_real.symbol pass); \
		if (res == CUDA_SUCCESS)                          \
			then;                                     \
		cm_hook_leave();                                  \
		return res;                                       \
	}

#endif
