/* SPDX-License-Identifier: MIT */
/*
 * Asks the user's other processes on a device for idle memory (allocator/base/ops.h): those whose
 * regions are in this process's folder. Thread-safe; waits 0.1 s at most.
 */
#ifndef CM_INTERPOSE_PROCESS_PEERS_H
#define CM_INTERPOSE_PROCESS_PEERS_H

#include "stats/peers.h"

void cm_peers_of_process(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret_peers);

#endif
