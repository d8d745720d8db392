/* SPDX-License-Identifier: MIT */
/*
 * Exchanges idle segments for a new one. If no block serves a request, idle segments would stay
 * beside the new segment: they are too small, spared (fragmentation.h), or of another context of
 * the device. If that would raise what is reserved to a new maximum, idle segments return to the
 * driver first, as many as keep it from rising. Later the new segment serves in their place, as any
 * larger block is split. If no block is, a program with several sizes would exchange for ever, so
 * more may be reserved before anything returns (cm_fragmentation_unsplit_most_locked). If the
 * driver refuses the new segment all the same, the request takes a block that it has spared.
 */
#ifndef CM_ALLOCATOR_RECLAIM_EXCHANGE_H
#define CM_ALLOCATOR_RECLAIM_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"

struct cm_heap;

/*
 * A segment of `bytes` is about to be made in the large pool of the heap. Idle segments of all
 * contexts of its device may return. May wait for the device: as long as the last cudaFree would
 * have (cm_epoch_wait_for_device), else for CM_PATIENCE_NS; if it is busy for longer, nothing
 * returns. The gate is entered, and no lock is held. 0; -EBUSY: a capture is active, and the caller
 * outside of the gate (cm_gate_enter).
 */
CM_NODISCARD int cm_exchange(struct cm_heap *heap, uint64_t bytes);

#endif
