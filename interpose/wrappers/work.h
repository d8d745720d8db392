/* SPDX-License-Identifier: MIT */
/*
 * Work that may run without bound: kernels, graphs, host functions, waits for values. The doors of
 * it are watched for one purpose: an event recorded after a free and before such work captures no
 * more than a cudaFree would have waited for, so an ordered barrier behind it can't hang a program
 * that runs natively. Whether memory is idle is never judged by it.
 */
#ifndef CM_INTERPOSE_WRAPPERS_WORK_H
#define CM_INTERPOSE_WRAPPERS_WORK_H

#include <stdint.h>

/* Changes with every piece of such work; see struct cm_driver_ops. */
extern uint64_t cm_work_number __attribute__((visibility("hidden")));

/* Changes it: what has been freed until now may lie behind such work, for which the program's own
 * call did not wait. */
void cm_work_note(void);

#endif
