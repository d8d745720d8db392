/* SPDX-License-Identifier: MIT */
/*
 * How long idle memory is kept: the curve. Memory that has just become idle has weight 1, memory
 * that was idle for the whole decay time has weight 0, with a smooth step between them. The
 * weighted sum is how much may be idle. So an unused cache is returned slowly at first, then
 * faster, then slowly again, and a cache in use stays. Idea and curve are jemalloc's, which samples
 * the ages that are known here. Pure.
 */
#ifndef CM_ALLOCATOR_ENTRY_DECAY_H
#define CM_ALLOCATOR_ENTRY_DECAY_H

#include <stdint.h>

/* The weighted sum of `bytes` that have been idle for `age_ns`: all of them at 0, half at half
 * the decay time. */
uint64_t cm_decay_keep(uint64_t bytes, uint64_t age_ns, uint64_t decay_ns);

#endif
