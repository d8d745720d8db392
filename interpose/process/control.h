/* SPDX-License-Identifier: MIT */
/*
 * The helper thread that answers the mailbox: one per process, asleep until a letter is posted. It
 * takes no signals, does not keep the process alive and begins no command once exit has begun.
 */
#ifndef CM_INTERPOSE_PROCESS_CONTROL_H
#define CM_INTERPOSE_PROCESS_CONTROL_H

#include "allocator/cache.h"
#include "stats/region.h"

/*
 * Starts the thread; both arguments must last as long as the process. A negative errno where there
 * is no thread to be had: everything but the mailbox works without it.
 */
int cm_control_start(struct cm_region *region, struct cm_cache *cache);

/* Exit begins: no command begins any more; waits for the one that runs, a fifth of a second at
 * most. */
void cm_control_stop(void);

/* In a forked child, where the thread does not exist: forgets it. */
void cm_control_forget(void);

#endif
