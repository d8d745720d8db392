/* SPDX-License-Identifier: MIT */
/*
 * A request on the slow path (slow_path.h), and what its steps share. The gate is entered; no lock
 * is held. Takes the device's lock.
 */
#ifndef CM_ALLOCATOR_ENTRY_SLOW_REQUEST_H
#define CM_ALLOCATOR_ENTRY_SLOW_REQUEST_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/blocks/fragmentation.h"
#include "allocator/blocks/heap.h"
#include "allocator/state/state.h"

struct cm_oom;

/* What the driver has refused last, and cm_cache_returns before that. */
struct cm_slow_refusal {
	uint64_t bytes; /* 0: nothing */
	uint64_t returns;
};

struct cm_slow_request {
	struct cm_heap *heap;
	uint64_t ctx;   /* of the heap when the request came */
	uint64_t size;  /* rounded */
	uint64_t bytes; /* as the program requested */
	uint64_t *ret_addr;
	struct cm_oom *oom; /* filled in if it fails for lack of memory */
	struct cm_slow_refusal *refusal;
};

/* Whether the heap is still that of the context. If not, the request goes to the driver. */
static inline bool cm_slow_stands(const struct cm_slow_request *request)
{
	return request->ctx && cm_heap_ctx(request->heap) == request->ctx;
}

/* Takes a ready block by one of the functions of blocks/heap.h. -EAGAIN: the context has gone. */
static inline int cm_slow_take_by(const struct cm_slow_request *request,
				  int (*take_locked)(struct cm_heap *heap, uint64_t size,
						     uint64_t bytes, uint64_t *ret_addr))
{
	struct cm_device *device = request->heap->device;
	int err = -EAGAIN;

	cm_lock_acquire(&device->lock);
	if (cm_slow_stands(request))
		err = take_locked(request->heap, request->size, request->bytes, request->ret_addr);
	cm_lock_release(&device->lock);
	return err;
}

/* A ready block. -ENOENT: there is none, -EAGAIN: the context has gone. */
static inline int cm_slow_take(const struct cm_slow_request *request)
{
	return cm_slow_take_by(request, cm_heap_take_locked);
}

/* The same, without spared blocks. */
static inline int cm_slow_take_unfragmenting(const struct cm_slow_request *request)
{
	return cm_slow_take_by(request, cm_heap_take_unfragmenting_locked);
}

/* The size of the segment that would serve it. */
static inline uint64_t cm_slow_segment_bytes(const struct cm_slow_request *request)
{
	struct cm_device *device = request->heap->device;

	return CM_WITH_LOCK(&device->lock,
			    cm_fragmentation_segment_bytes_locked(request->heap, request->size));
}

#endif
