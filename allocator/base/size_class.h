/* SPDX-License-Identifier: MIT */
/*
 * Sizes: what a request is rounded to, which pool serves it, how large a segment a miss asks for.
 * The rules are those of PyTorch's native allocator (reference: c10/cuda/CUDACachingAllocator.cpp,
 * constants and round_size), so that its statistics and experience carry over. All in bytes.
 */
#ifndef CM_ALLOCATOR_BASE_SIZE_CLASS_H
#define CM_ALLOCATOR_BASE_SIZE_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/policy.h"
#include "stats/layout.h"

#define CM_GRAIN         UINT64_C(512) /* every block size is a multiple of it */
#define CM_GRAIN_SHIFT   9
#define CM_SMALL_MAX     (UINT64_C(1) << 20) /* largest rounded size of the small pool */
#define CM_SMALL_SEGMENT (UINT64_C(2) << 20)
#define CM_MEDIUM_MAX    (UINT64_C(10) << 20) /* from here a segment of its own */
#define CM_SEGMENT_GRAIN (UINT64_C(2) << 20)
#define CM_REQUEST_MAX   (UINT64_C(1) << 60) /* beyond it the driver answers */

/* Whether sizes are rounded to more than CM_GRAIN. */
bool cm_size_is_rounded_up(const struct cm_policy *policy);

/* The size of the block that serves `bytes` (1 to CM_REQUEST_MAX), never less than it. */
uint64_t cm_size_round(const struct cm_policy *policy, uint64_t bytes);

/* The pool of a rounded size. */
static inline enum cm_pool cm_size_pool(uint64_t size)
{
	return size <= CM_SMALL_MAX ? CM_POOL_SMALL : CM_POOL_LARGE;
}

/* What the driver takes for an allocation of so many bytes: it rounds up to CM_SEGMENT_GRAIN. */
static inline uint64_t cm_size_of_driver(uint64_t bytes)
{
	return (bytes + CM_SEGMENT_GRAIN - 1) / CM_SEGMENT_GRAIN * CM_SEGMENT_GRAIN;
}

/* The size of the segment that a miss of a rounded size requests from the driver. */
uint64_t cm_size_segment(const struct cm_policy *policy, uint64_t size);

#endif
