/* SPDX-License-Identifier: MIT */
/*
 * Waiting at the capture gate (ops.h). While a thread waits for the device, for a lock or for
 * another thread, it is outside of the gate, so that it never holds back a capture that is about to
 * begin.
 *
 * All functions but cm_gate_enter are called from inside. Where one returns false a capture is
 * active: the caller is outside, and makes no driver call any more.
 */
#ifndef CM_ALLOCATOR_BASE_GATE_H
#define CM_ALLOCATOR_BASE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "allocator/base/lock.h"
#include "allocator/base/ops.h"

/* Work that has not ended after so long may never end: it is not waited for. */
#define CM_PATIENCE_NS UINT64_C(100000000)
/* So long work may take before memory that could be given back is kept rather than waited for. */
#define CM_STUCK_NS UINT64_C(10000000000)

#define CM_GATE_BACKOFF_NS     UINT64_C(20000)    /* the first sleep; the next ones are longer, */
#define CM_GATE_BACKOFF_MAX_NS UINT64_C(1000000)  /* up to this */
#define CM_GATE_CAPTURE_NS     UINT64_C(20000000) /* that of a training step takes milliseconds */

/*
 * Enters the gate, for a thread that has been inside before. A capture that is active is waited
 * for, but for CM_GATE_CAPTURE_NS at most: it may end only when this thread goes on, whose program
 * holds a lock that the capturing thread wants.
 */
CM_NODISCARD bool cm_gate_enter(const struct cm_driver_ops *ops);

/*
 * Between two questions: sleeps outside of the gate, for what is waited for may be about to be
 * captured and launched by another thread. *backoff_ns is for how long, and grows. No lock is held
 * but those that are taken by cm_gate_lock or tried.
 */
CM_NODISCARD bool cm_gate_backoff(const struct cm_driver_ops *ops, uint64_t *backoff_ns);

/*
 * Takes a lock whose holder sleeps outside of the gate. Who waited for it inside would hold back a
 * capture that is about to begin, and that the sleeping holder until it gives up. False: the lock
 * is not taken.
 */
CM_NODISCARD bool cm_gate_lock(const struct cm_driver_ops *ops, struct cm_lock *lock)
	CM_TRIES(true, lock);

#endif
