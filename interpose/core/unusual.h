/* SPDX-License-Identifier: MIT */
/*
 * Why a request or a free must not go straight to the cache: one word, so that one check covers all
 * reasons (wrappers/memory.c). It is wiped in a forked child, as all of cm_process. Thread-safe;
 * never blocks.
 */
#ifndef CM_INTERPOSE_CORE_UNUSUAL_H
#define CM_INTERPOSE_CORE_UNUSUAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/core/state.h"

/* The low bits count the captures under way (driver/capture.h); each other bit has one owner,
 * which serialises its own changes. */
#define CM_UNUSUAL_CAPTURES  0x00ffffffu
#define CM_UNUSUAL_STOPPED   0x01000000u /* nothing is cached any more */
#define CM_UNUSUAL_RECORDED  0x02000000u /* stacks are recorded */
#define CM_UNUSUAL_HOST_WORK 0x04000000u /* a free may have to wait (driver/host_work.h) */
#define CM_UNUSUAL_POLICY    0x08000000u /* cm_cache_has_hits is false */
#define CM_USUAL             0x10000000u /* there is a cache: the word if nothing is unusual */

/* Whether any of the bits is set. Acquire: a thread that sees the bit sees what was done before it
 * was set. */
static inline bool cm_unusual_is(uint32_t bits)
{
	return (atomic_load_explicit(&cm_process.unusual, memory_order_acquire) & bits) != 0;
}

/* For the owner of the bit. Returns whether it was set. */
static inline bool cm_unusual_set(uint32_t bit, bool is)
{
	const bool was = cm_unusual_is(bit);

	if (is && !was)
		return (atomic_fetch_or(&cm_process.unusual, bit) & bit) != 0;
	if (!is && was)
		atomic_fetch_and(&cm_process.unusual, ~bit);
	return was;
}

#endif
