/* SPDX-License-Identifier: MIT */
/*
 * The other processes of the user on a device, as the allocator asks for them
 * (allocator/base/ops.h): those whose regions are where this process's is.
 */
#ifndef CM_INTERPOSE_PROCESS_PEERS_H
#define CM_INTERPOSE_PROCESS_PEERS_H

#include "stats/peers.h"

void cm_peers_of_process(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret_neighbours);

#endif
