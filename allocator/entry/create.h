/* SPDX-License-Identifier: MIT */
/*
 * The heaps of a context in shards after the first one, made when they are first needed.
 */
#ifndef CM_ALLOCATOR_ENTRY_CREATE_H
#define CM_ALLOCATOR_ENTRY_CREATE_H

#include <stdint.h>

struct cm_heap;

/* The heap of a context in the shard of that number, made if there is none, and the shard with it;
 * `first`: its heap in the first shard. NULL: no room for it, or caching has stopped. Takes the
 * event lock. */
struct cm_heap *cm_create_shard_heap(struct cm_heap *first, uint32_t number);

#endif
