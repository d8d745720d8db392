/* SPDX-License-Identifier: MIT */
/*
 * How long idle memory is kept: the curve. A piece of memory that has just become idle has weight
 * 1, one that was idle for the whole decay time weight 0, and a smooth step leads from one to the
 * other. The weighted sum is how much may be idle. So an unused cache is returned slowly at first,
 * then faster, then slowly again, and a cache in use stays. Idea and curve are jemalloc's, which
 * samples the ages that are known here. Pure.
 */
#ifndef CM_ALLOCATOR_ENTRY_DECAY_H
#define CM_ALLOCATOR_ENTRY_DECAY_H

#include <stdint.h>

/* What `bytes` count for that have been idle for `age_ns`: all at 0, half at half the time. */
uint64_t cm_decay_keep(uint64_t bytes, uint64_t age_ns, uint64_t decay_ns);

#endif
