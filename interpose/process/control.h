/* SPDX-License-Identifier: MIT */
/*
 * The helper thread that runs commands from tools, one per process; it sleeps until a command is
 * posted. It takes no signals, does not keep the process alive, and begins no command after exit
 * has begun.
 */
#ifndef CM_INTERPOSE_PROCESS_CONTROL_H
#define CM_INTERPOSE_PROCESS_CONTROL_H

#include "allocator/cache.h"
#include "stats/region.h"

/* Starts the thread; both arguments must live as long as the process. Returns a negative errno if
 * there is no thread: all but commands and decay works without it. */
int cm_control_start(struct cm_region *region, struct cm_cache *cache);

/* At exit: no command begins from now on. Waits for the running one, up to 0.2 s. */
void cm_control_stop(void);

/* In a forked child, which has no such thread. */
void cm_control_forget(void);

#endif
