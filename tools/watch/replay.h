/* SPDX-License-Identifier: MIT */
/*
 * A recording as a source of samples. It has the figures of the columns, and no regions: no block
 * tables, events, options or stacks.
 */
#ifndef CM_TOOLS_WATCH_REPLAY_H
#define CM_TOOLS_WATCH_REPLAY_H

#include "tools/cli/options.h"
#include "tools/watch/source.h"

/*
 * Opens --from, with what --pid and --device select, at the time of --at; without it at the first
 * sample, or at the last one if `at_end`. The samples are due at once, unless `speed` of the source
 * is set. 0, or an exit code after a complaint. `options` must outlive the source.
 */
int cm_watch_replay_open(const struct cm_options *options, bool at_end,
			 struct cm_watch_source **ret_source);

/* --from, or the processes that run now. As cm_watch_replay_open and cm_watch_live_open. */
int cm_watch_open(const struct cm_options *options, bool at_end,
		  struct cm_watch_source **ret_source);

#endif
