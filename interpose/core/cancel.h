/* SPDX-License-Identifier: MIT */
/*
 * Where a thread of the program is not to be cancelled: around what reads, writes, waits or calls
 * the driver with a lock, the start, or anything else under way that others wait for, which would
 * be left so for ever. A request that ready memory serves has no such point, so nothing is asked on
 * its way. pthread_cancel(3) takes effect later then, at a point of the program's own.
 */
#ifndef CM_INTERPOSE_CORE_CANCEL_H
#define CM_INTERPOSE_CORE_CANCEL_H

#include <pthread.h>
#include <stdint.h>

#include "allocator/base/attr.h"

struct cm_cancel {
	uint32_t depth; /* pairs that are open */
	int before;     /* what was so outside of them */
};

extern __thread struct cm_cancel cm_cancel __attribute__((visibility("hidden")));

/* The two are a pair, and pairs may be inside others, which costs them nothing: the C library's
 * question takes 5 ns. A signal handler may come in between two lines and have pairs of its own. */
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
