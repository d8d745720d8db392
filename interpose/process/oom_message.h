/* SPDX-License-Identifier: MIT */
/*
 * What the user is told when device memory is out, and is there again. The first failure of the
 * process is described in a report of fixed length, later ones in a line each, up to a number.
 * Allocates nothing, writes once. It captures a stack and names those of the holders, which asks
 * the loader (dl_iterate_phdr): no lock may be held. Thread-safe.
 */
#ifndef CM_INTERPOSE_PROCESS_OOM_MESSAGE_H
#define CM_INTERPOSE_PROCESS_OOM_MESSAGE_H

#include "allocator/oom/oom.h"

void cm_oom_message_print(const struct cm_oom *oom);

#endif
