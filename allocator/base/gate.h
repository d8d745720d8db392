/* SPDX-License-Identifier: MIT */
/*
 * Waiting at the capture gate (ops.h). A thread that waits for the device, for a lock or for
 * another thread is outside the gate, so it never delays a capture that is about to begin.
 *
 * All functions but cm_gate_enter are called from inside. If one returns false, a capture is
 * active: the caller is outside, and must make no more driver calls.
 */
#ifndef CM_ALLOCATOR_BASE_GATE_H
#define CM_ALLOCATOR_BASE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock.h"
#include "allocator/base/ops.h"

/* Work that has not ended after this time may never end: nothing waits for it. */
#define CM_PATIENCE_NS UINT64_C(100000000)
/* How long to wait for work before memory that could be returned is kept instead. */
#define CM_STUCK_NS UINT64_C(10000000000)

#define CM_GATE_BACKOFF_NS     UINT64_C(20000)    /* the first sleep; the next ones are longer, */
#define CM_GATE_BACKOFF_MAX_NS UINT64_C(1000000)  /* up to this */
#define CM_GATE_CAPTURE_NS     UINT64_C(20000000) /* that of a training step takes milliseconds */

/*
 * Enters the gate again. Waits for an active capture, but at most CM_GATE_CAPTURE_NS: the capture
 * may end only when this thread goes on, if the program holds a lock that the capturing thread
 * wants.
 */
CM_NODISCARD bool cm_gate_enter(const struct cm_driver_ops *ops);

/*
 * Between two queries: sleeps outside the gate, as another thread may be about to capture and
 * launch what the caller waits for. *backoff_ns is the time, and grows. No lock is held but those
 * that are taken by cm_gate_lock or by a trylock.
 */
CM_NODISCARD bool cm_gate_backoff(const struct cm_driver_ops *ops, uint64_t *backoff_ns);

/*
 * Takes a lock whose holder may sleep outside the gate. A thread that waited for it inside would
 * delay a capture that is about to begin, and that capture would delay the holder until it gives
 * up. False: the lock is not taken.
 */
CM_NODISCARD bool cm_gate_lock(const struct cm_driver_ops *ops, struct cm_lock *lock)
	CM_TRIES(true, lock);

#endif
