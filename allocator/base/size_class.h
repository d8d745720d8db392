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

/*
 * The class of a size, 0 to 63, rising with the size: 0 for the small pool, four classes for each
 * power of two above, 63 for all from 48 GiB on.
 */
#define CM_SIZE_CLASSES 64u

static inline uint32_t cm_size_class(uint64_t size)
{
	const uint32_t exponent = 63u ^ (uint32_t)__builtin_clzll(size | CM_SMALL_MAX);
	/* The two bits below the highest one, and that one, which counts for four. */
	const uint32_t class = exponent * 4 + (uint32_t)(size >> (exponent - 2)) - 83;
	/* Without a branch: a processor cannot predict the pool of a size. */
	const uint32_t small = 0u - (size < CM_SMALL_MAX + 1);

	return (class < CM_SIZE_CLASSES ? class : CM_SIZE_CLASSES - 1) & ~small;
}

/* The pool of a rounded size. */
static inline enum cm_pool cm_size_pool(uint64_t size)
{
	return size <= CM_SMALL_MAX ? CM_POOL_SMALL : CM_POOL_LARGE;
}

/* The size of the segment that a miss of a rounded size requests from the driver. */
uint64_t cm_size_segment(const struct cm_policy *policy, uint64_t size);

#endif
