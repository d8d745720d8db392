/* SPDX-License-Identifier: MIT */
/*
 * A larger segment for smaller ones. Where a request finds no block that is large enough, the idle
 * segments that are too small for it would be kept beside the new one. Where that would raise what
 * is reserved above all that was so before, they go back to the driver first, as far as that keeps
 * it from rising: only where a block may be cut out of any that is large enough, so that the new
 * one serves for them.
 *
 * What goes is smaller than what comes. So the largest segments that a program needs stay, then the
 * next ones, and a program that repeats itself soon does without.
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

#endif
