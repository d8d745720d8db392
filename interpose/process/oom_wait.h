/* SPDX-License-Identifier: MIT */
/*
 * Waits for a tool that observes out-of-memory failures: `cudamemstat run --oom`, which sets the
 * option oom_wait_ms. Without the option nothing waits.
 */
#ifndef CM_INTERPOSE_PROCESS_OOM_WAIT_H
#define CM_INTERPOSE_PROCESS_OOM_WAIT_H

#include "stats/config.h"

/* Called once, at the start. */
void cm_oom_wait_start(const struct cm_config *config);

/* After a failed request: lets the tool save the state before the program gets the error. Waits up
 * to oom_wait_ms; a tool that missed it once is not waited for again. The caller holds no lock.
 * Thread-safe. */
void cm_oom_wait_until_seen(void);

#endif
