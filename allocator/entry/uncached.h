/* SPDX-License-Identifier: MIT */
/*
 * Device memory that the program has from the driver outside the cache: managed, pitched, arrays,
 * from pools, mapped. It is only counted, by kind, in the counters of its device and towards its
 * limit (state/limit.h). A row keeps what a free has to subtract.
 *
 * The program names memory by an address or a handle when it frees it. A free has two steps, since
 * the driver may refuse it, or may return the same name to another thread at once: take before the
 * call, then drop or put back by its answer.
 *
 * Thread-safe. No function calls the driver. If there is no host memory for a row, the memory is
 * not counted.
 */
#ifndef CM_ALLOCATOR_ENTRY_UNCACHED_H
#define CM_ALLOCATOR_ENTRY_UNCACHED_H

#include <stdint.h>

#include "allocator/state/state.h"

void cm_uncached_fini(struct cm_uncached *uncached);

/* Adds new memory, under a name that nothing else has now. A name of 0 is not counted. If a
 * suspended context had its address, waits as cm_cache_await_place; a block of ours that had it was
 * freed without our hooks, and is retired. Bytes that were taken from the limit but are not counted
 * here return to the limit. */
void cm_uncached_add(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key,
		     const struct cm_uncached_memory *memory);

/* The program got the handle once more, and will release it once more. */
void cm_uncached_retain(struct cm_cache *cache, uint64_t handle);

/* Addresses are mapped to the memory of a handle, which stays until they are unmapped. */
void cm_uncached_map(struct cm_cache *cache, uint64_t addr, uint64_t bytes, uint64_t handle);

/* The program is about to free it. Returns what to pass to one of the next two functions; 0: not
 * known. */
uint32_t cm_uncached_take(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key);
/* The same for all mappings in the range. */
uint32_t cm_uncached_take_mapped(struct cm_cache *cache, uint64_t addr, uint64_t bytes);

/* The driver has freed it: it leaves the counters, once nothing else refers to the memory. */
void cm_uncached_drop(struct cm_cache *cache, uint32_t taken);
/* The driver has refused. */
void cm_uncached_put_back(struct cm_cache *cache, uint32_t taken);

/* The context is gone, and its memory with it. Does nothing for 0, which a program may try to
 * destroy. */
void cm_uncached_forget_context(struct cm_cache *cache, uint64_t ctx);

#endif
