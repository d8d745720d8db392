/* SPDX-License-Identifier: MIT */
/*
 * Peer processes: the other processes of this user that have memory of a device under the library.
 * They are found by their regions, and asked through their command channels to return idle memory.
 * Prints nothing. Thread-safe.
 */
#ifndef CM_STATS_PEERS_H
#define CM_STATS_PEERS_H

#include <stdint.h>

struct cm_peers {
	uint32_t count;     /* peers with memory of the device */
	int64_t held_bytes; /* device memory of all peers, cached or not */
	int64_t most_bytes; /* ... and of the peer with the most */
	int32_t most_pid;   /* its pid; 0: there is none */
	char most_comm[64]; /* its program name: foreign text */
	uint32_t asked;
	uint64_t given_bytes; /* returned to the driver by the peers that were asked */
};

/*
 * Finds the regions in `dir` whose process lives and has memory of the device with this UUID (all
 * zeros: of no device). If `wanted` is not 0, asks the peers one after the other for the bytes that
 * are still missing, the one with the most idle memory first. Blocks for `timeout_ns` nanoseconds
 * at most, or until it has read one more region: those that it does not come to are left out. Each
 * peer gets half of the time left. A stopped process is not asked. Errors count as no answer.
 */
void cm_peers_ask(const char *dir, const uint8_t uuid[16], uint64_t wanted, uint64_t timeout_ns,
		  struct cm_peers *ret_peers);

#endif
