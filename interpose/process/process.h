/* SPDX-License-Identifier: MIT */
/*
 * The start of the library in this process, at the first wrapped CUDA call that needs it, and what
 * fork undoes. Until then the library has read nothing, written nothing and started nothing.
 * Thread-safe.
 */
#ifndef CM_INTERPOSE_PROCESS_PROCESS_H
#define CM_INTERPOSE_PROCESS_PROCESS_H

#include "allocator/base/attr.h"
#include "interpose/core/state.h"

/* Starts the library, or waits up to 0.1 s for another thread that does. errno is preserved. */
struct cm_cache *cm_process_start(void);

/*
 * The cache, made at the first call. NULL: pass everything on, because of mode:off, a failed start,
 * or a call from inside the start itself. After the first call one load.
 */
static inline struct cm_cache *cm_process_cache(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return CM_LIKELY(cache != NULL) ? cache : cm_process_start();
}

/*
 * The same for an allocation, which may be the first call that reaches the driver: while CUDA does
 * not work in the process nothing is started, and the driver refuses. So a forked child that calls
 * CUDA leaves no region behind and has no helper thread that would keep it alive.
 */
struct cm_cache *cm_process_start_for_request(void);
static inline struct cm_cache *cm_process_cache_for_request(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	return CM_LIKELY(cache != NULL) ? cache : cm_process_start_for_request();
}

/*
 * Runs `forget` in every child that is forked from now on, started library or not: for a module
 * above this one that holds a lock across a driver call. Adding a handler again does nothing; there
 * is room for CM_FORK_HANDLERS.
 */
#define CM_FORK_HANDLERS 4
void cm_process_on_fork(void (*forget)(void));

#endif
