/* SPDX-License-Identifier: MIT */
#include "allocator/base/policy.h"

#define MIB (UINT64_C(1) << 20)

void cm_policy_init(struct cm_policy *policy)
{
	*policy = (struct cm_policy){
		.mode = CM_MODE_CACHE,
		.reuse = CM_REUSE_BARRIER,
		.sync = CM_SYNC_AUTO,
		.placement = CM_PLACEMENT_SPLIT,
		.max_split_size = UINT64_MAX,
		.max_non_split_rounding = 20 * MIB,
		.large_segment_size = 20 * MIB,
		.garbage_collection_threshold = 0,
		.exchange = true,
		.shards = CM_SHARDS_AUTO,
		.shards_most = 1,
		.peer_processes = true,
		.memory_fraction = 1,
		.memory_limit = UINT64_MAX,
	};
}
