/* SPDX-License-Identifier: MIT */
/*
 * Where a thread of the program is not to be cancelled: around what reads, writes, waits or calls
 * the driver with a lock, the start, or anything else under way that others wait for, which would
 * be left so for ever. A request that ready memory serves has no such point, so nothing is asked on
 * its way. pthread_cancel(3) takes effect later then, at a point of the program's own.
 */
#ifndef CM_INTERPOSE_CANCEL_H
#define CM_INTERPOSE_CANCEL_H

#include <pthread.h>

/* What was so before is for the end of it; the two are a pair, and pairs may be inside others. */
static inline int cm_cancel_hold(void)
{
	int before = PTHREAD_CANCEL_ENABLE;

	(void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
	return before;
}

static inline void cm_cancel_allow(int before)
{
	(void)pthread_setcancelstate(before, NULL);
}

#endif
