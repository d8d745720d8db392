/* SPDX-License-Identifier: MIT */
/*
 * The processes that run now, as a source of samples. Regions stay open between two samples; new
 * ones are looked for when the region folder has changed, and every ten seconds.
 */
#ifndef CM_TOOLS_WATCH_LIVE_H
#define CM_TOOLS_WATCH_LIVE_H

#include "tools/cli/options.h"
#include "tools/watch/source.h"

/*
 * Opens what --pid, --device, --region and --dir select. 0, or an exit code after a complaint; to
 * find nothing is an error only with --pid. `options` must outlive the source.
 */
int cm_watch_live_open(const struct cm_options *options, struct cm_watch_source **ret_source);

#endif
