/* SPDX-License-Identifier: MIT */
#include "interpose/process/peers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "interpose/core/cancel.h"
#include "interpose/core/state.h"
#include "stats/region.h"

/* The longest delay of a request that without us would have failed at once. */
#define ASK_NS UINT64_C(100000000)

void cm_peers_of_process(const uint8_t uuid[16], uint64_t wanted, struct cm_peers *ret_peers)
{
	const struct cm_region *region = cm_process_region();
	char dir[sizeof(region->path)] = CM_REGION_DIR;
	const int saved = errno;
	char *slash;

	cm_cancel_hold();
	if (region && region->path[0]) {
		(void)snprintf(dir, sizeof(dir), "%s", region->path);
		slash = strrchr(dir, '/');
		if (slash)
			*slash = '\0';
	}
	cm_peers_ask(dir, uuid, wanted, ASK_NS, ret_peers);
	cm_cancel_allow();
	errno = saved;
}
