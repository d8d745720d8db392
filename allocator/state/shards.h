/* SPDX-License-Identifier: MIT */
/*
 * Several shards of a device. A shard is a lock with what it guards: heaps, free blocks, open
 * epochs, counters, a ring of events. A device has one until threads contend for its lock
 * (entry/shard.h). All shards of a device serve the same contexts, each with a heap of its own; the
 * heaps of a context share its events and its state.
 *
 * Counters add up: a figure of the device is the sum over its shards. So are peaks: those of the
 * shards are parts of the device's peak. A shard whose counter would pass its part stops all
 * shards, and takes from what the others do not use. Only if all of them together have more than
 * ever before, the peak rises. So at each moment the sum of the parts is the exact peak, and no
 * shard reads another's counters as long as it stays below its part.
 *
 * No function calls the driver.
 */
#ifndef CM_ALLOCATOR_STATE_SHARDS_H
#define CM_ALLOCATOR_STATE_SHARDS_H

#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/state/state.h"
#include "stats/counters.h"

/* The number of the shard, 0: the first one of its device. */
uint32_t cm_shards_number_of(const struct cm_device *device);

/* The heap of the context in the shard of that number; `first`: its heap in the first shard. NULL:
 * there is none. */
struct cm_heap *cm_shards_find_heap(struct cm_heap *first, uint32_t number);

/* Stops all shards of a device, none of them in the middle of a change. `first` is the first shard.
 * No lock of a device is held, but those of other GPUs that were stopped. Waits for threads that
 * hold the locks. */
void cm_shards_stop(struct cm_device *first);
void cm_shards_resume(struct cm_device *first);

/* Counters move from one shard to another, or change in all at one moment: readers outside the
 * process wait for the end. All shards are stopped. */
static inline void cm_shards_begin_move_locked(struct cm_device *first)
{
	cm_seq_begin(&first->row->stops);
}

static inline void cm_shards_end_move_locked(struct cm_device *first)
{
	cm_seq_end(&first->row->stops);
}

/* A counter of the shard has passed its part of a peak (cm_counters_raise). Its lock is held, its
 * counters are being changed. On return the parts are adjusted. */
CM_COLD void cm_shards_trade_locked(struct cm_device *device);

/* The sum of the rows of the device, whose shards are stopped; valid until they are resumed. */
const struct cm_device_row *cm_shards_sum_locked(struct cm_device *first);
/* The same as of one moment. Takes their locks. */
void cm_shards_read(struct cm_device *first, struct cm_device_row *ret_row);

/* The shard has got bytes from the driver, or returned them (less than 0). Returns what all shards
 * of the device have reserved. */
static inline uint64_t cm_shards_add_reserved(struct cm_device *device, int64_t bytes)
{
	return atomic_fetch_add_explicit(&device->first->reserved, (uint64_t)bytes,
					 memory_order_relaxed) +
	       (uint64_t)bytes;
}

/* What all shards of the device have reserved. Without their locks it may be out of date. */
static inline uint64_t cm_shards_reserved(const struct cm_device *device)
{
	return atomic_load_explicit(&device->first->reserved, memory_order_relaxed);
}

/* What the other shards of the device have reserved; without their locks. */
static inline uint64_t cm_shards_reserved_by_others(const struct cm_device *device)
{
	const uint64_t own = (uint64_t)cm_stat_current(device->row, CM_STAT_RESERVED_BYTES);
	const uint64_t all = cm_shards_reserved(device);

	return all > own ? all - own : 0;
}

#endif
