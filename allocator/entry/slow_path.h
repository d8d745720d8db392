/* SPDX-License-Identifier: MIT */
/*
 * What happens to a request that no ready block serves, step by step (docs/architecture.md).
 */
#ifndef CM_ALLOCATOR_ENTRY_SLOW_PATH_H
#define CM_ALLOCATOR_ENTRY_SLOW_PATH_H

#include <stdint.h>

#include "allocator/state/state.h"

/*
 * Serves a request of `bytes`, rounded to `size`, by driver calls: a poll for freed memory, an
 * ordered barrier, new memory, and on failure new memory after the cache was returned. Results as
 * cm_cache_alloc. May wait for the device on the last steps. -EBUSY: a capture has begun, pass the
 * request on.
 */
int cm_slow_path_alloc(struct cm_heap *heap, uint64_t size, uint64_t bytes, uint64_t *ret_addr);

/* The same from freed memory alone, outside of the gate. -ENOENT: there is none. */
int cm_slow_path_take_freed(struct cm_heap *heap, uint64_t size, uint64_t bytes,
			    uint64_t *ret_addr);

/* One request passed to the driver as it is and entered in the counters (mode stats). */
int cm_slow_path_alloc_direct(struct cm_heap *heap, uint64_t bytes, uint64_t *ret_addr);

#endif
