/* SPDX-License-Identifier: MIT */
/*
 * The other processes of this user that have memory of a device under the library, found by their
 * regions, and asked through their mailboxes to give back what they hold idle. Prints nothing;
 * thread-safe.
 */
#ifndef CM_STATS_PEERS_H
#define CM_STATS_PEERS_H

#include <stdint.h>

struct cm_peers {
	uint32_t count;     /* that have memory of the device */
	int64_t held_bytes; /* of the device that all of them have, cached or past their caches */
	int64_t most_bytes; /* ... and the one of them that has most */
	int32_t most_pid;   /* 0: none has any */
	char most_comm[64]; /* its program, as it names itself: foreign text */
	uint32_t asked;
	uint64_t given_bytes; /* by those who were asked */
};

/*
 * Looks for regions in `dir` whose process lives and has memory of the device with this UUID; one
 * of all zeros is nobody's. Where `wanted` is not 0, asks one after the other for what is still
 * missing of so many bytes, first who has most to give, for `timeout_ns` in all at most, of which
 * nobody gets more than half of what is left. A process that is stopped is not asked.
 */
void cm_peers_ask(const char *dir, const uint8_t uuid[16], uint64_t wanted, uint64_t timeout_ns,
		  struct cm_peers *ret_neighbours);

#endif
