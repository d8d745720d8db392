/* SPDX-License-Identifier: MIT */
/*
 * The tool that watches the program, if one does: `cudamemstat run --oom`. It says so by the option
 * oom_wait_ms; without it nobody is waited for.
 */
#ifndef CM_INTERPOSE_PROCESS_OOM_WAIT_H
#define CM_INTERPOSE_PROCESS_OOM_WAIT_H

#include "stats/config.h"

/* At the start of a process. */
void cm_oom_wait_start(const struct cm_config *config);

/*
 * A request has failed for want of memory: lets the tool see the state that it failed in, before
 * the program hears of it. A tool that does not come in time is not waited for again. Thread-safe;
 * no lock is held.
 */
void cm_oom_wait_until_seen(void);

#endif
