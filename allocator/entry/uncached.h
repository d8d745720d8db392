/* SPDX-License-Identifier: MIT */
/*
 * Memory of a device that the program has from the driver past the cache: managed, pitched, arrays,
 * from pools, mapped. It is only counted, by kind, in the counters of its device and towards its
 * limit (state/limit.h); what is kept of a piece is what its end has to take back.
 *
 * The program names memory by an address or a handle when it gives it up. A free goes in two steps,
 * since the driver may refuse it and, where it does not, may hand the name out again at once: take
 * before the call, then drop or put back by its answer.
 *
 * Thread-safe. No function calls the driver. Where our own memory is out a piece is not counted.
 */
#ifndef CM_ALLOCATOR_ENTRY_UNCACHED_H
#define CM_ALLOCATOR_ENTRY_UNCACHED_H

#include <stdint.h>

#include "allocator/state/state.h"

void cm_uncached_fini(struct cm_uncached *others);

/* New memory, under a name that nothing has now. A name of 0 is not counted. Where a going context
 * had its address it waits, as cm_cache_await_place. What was taken from the limit and is not
 * counted here goes back. */
void cm_uncached_add(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key,
		     const struct cm_uncached_memory *memory);

/* The handle has been given out once more, and is to be given up once more. */
void cm_uncached_retain(struct cm_cache *cache, uint64_t handle);

/* Addresses are mapped to the memory of a handle, which stays until they are unmapped. */
void cm_uncached_map(struct cm_cache *cache, uint64_t addr, uint64_t bytes, uint64_t handle);

/* The program is about to give it up. What to hand to one of the next two; 0: not known. */
uint32_t cm_uncached_take(struct cm_cache *cache, enum cm_uncached_name name, uint64_t key);
/* The same for all mappings in the range. */
uint32_t cm_uncached_take_mapped(struct cm_cache *cache, uint64_t addr, uint64_t bytes);

/* The driver has taken it back: the counters follow, once nothing else holds the memory. */
void cm_uncached_drop(struct cm_cache *cache, uint32_t taken);
/* The driver has refused. */
void cm_uncached_put_back(struct cm_cache *cache, uint32_t taken);

/* The context is gone, and what it had. 0: none, as a program may have tried to destroy. */
void cm_uncached_forget_context(struct cm_cache *cache, uint64_t ctx);

#endif
