/* SPDX-License-Identifier: MIT */
/*
 * A segment for others. Where a request finds no block that serves it, idle segments would be kept
 * beside the new one: too small for it, or spared (fragmentation.h). Where that would raise what is
 * reserved above all that was so before, they go back to the driver first, as far as that keeps it
 * from rising: only where a block may be cut out of any that is large enough, so that the new one
 * serves for them. And where the driver refuses, they go for a request that spared them.
 */
#ifndef CM_ALLOCATOR_RECLAIM_EXCHANGE_H
#define CM_ALLOCATOR_RECLAIM_EXCHANGE_H

#include <stdint.h>

#include "allocator/base/attr.h"

struct cm_heap;

/*
 * A segment of `bytes` is about to be made in the large pool of the heap. May wait for the device
 * for CM_PATIENCE_NS; nothing goes where it is busy for longer. The gate is entered, and no lock is
 * held. 0; -EBUSY: a capture is active, and the caller outside of the gate (cm_gate_enter).
 */
CM_NODISCARD int cm_exchange(struct cm_heap *heap, uint64_t bytes);

/* The driver has refused `bytes` in the large pool of the heap, and ready blocks are spared:
 * idle segments go, as far as they are enough. The reclaim lock is held, else as above; also
 * -EAGAIN: the device is busy for longer, and nothing went. */
CM_NODISCARD int cm_exchange_refused(struct cm_heap *heap, uint64_t bytes);

#endif
