/* SPDX-License-Identifier: MIT */
/*
 * Out-of-memory messages on standard error. The first failure of a process gets a report of fixed
 * length, later ones a line each, up to LINES_MAX; so does a request that succeeds after a failure.
 * Allocates nothing and writes once. Captures a stack and names frames through the loader
 * (dl_iterate_phdr), so the caller holds no lock. Thread-safe.
 */
#ifndef CM_INTERPOSE_PROCESS_OOM_MESSAGE_H
#define CM_INTERPOSE_PROCESS_OOM_MESSAGE_H

#include "allocator/oom/oom.h"

void cm_oom_message_print(const struct cm_oom *oom);

#endif
