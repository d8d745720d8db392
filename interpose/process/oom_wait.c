/* SPDX-License-Identifier: MIT */
#include "interpose/process/oom_wait.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "interpose/core/state.h"
#include "stats/command_channel.h"

#define NS_PER_MS UINT64_C(1000000)

static _Atomic uint64_t wait_ns; /* 0: no tool */

void cm_oom_wait_start(const struct cm_config *config)
{
	atomic_store_explicit(&wait_ns, config->oom_wait_ms * NS_PER_MS, memory_order_relaxed);
}

void cm_oom_wait_until_seen(void)
{
	const uint64_t ns = atomic_load_explicit(&wait_ns, memory_order_relaxed);
	struct cm_region *region = cm_process_region();
	const int saved = errno;

	if (!ns || !region || region->backing == CM_BACKING_PRIVATE)
		return;
	if (!cm_channel_report_oom(&region->header->channel, ns))
		atomic_store_explicit(&wait_ns, 0, memory_order_relaxed);
	errno = saved;
}
