/* SPDX-License-Identifier: MIT */
/*
 * The counters of one row as PyTorch's flat dictionary: every key of torch.cuda.memory_stats, under
 * both names if the documentation has another one, and the counters that only we have. Allocates
 * nothing; thread-safe; reads the row alone, which the caller has copied.
 */
#ifndef CM_STATS_MEMORY_STATS_H
#define CM_STATS_MEMORY_STATS_H

#include <stdint.h>

#include "stats/layout.h"

/* `key` is the callee's only during the call. */
typedef void (*cm_memory_stats_fn)(void *data, const char *key, int64_t value);

/* Calls `fn` for each key of a device, in the order of strcmp. */
void cm_memory_stats_each(const struct cm_device_row *row, cm_memory_stats_fn fn, void *data);

/*
 * The same for pinned host memory: torch.cuda.host_memory_stats as documented, and the names that
 * PyTorch has since 2.10, "allocations" (blocks owned) and "active_requests", beside it. Times are
 * in microseconds, as PyTorch's are.
 */
void cm_host_memory_stats_each(const struct cm_host_row *row, cm_memory_stats_fn fn, void *data);

#endif
