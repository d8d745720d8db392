/* SPDX-License-Identifier: MIT */
/*
 * Moves the model to another time of a recording. Knows no terminal.
 */
#ifndef CM_TOOLS_TOP_REPLAY_H
#define CM_TOOLS_TOP_REPLAY_H

#include "tools/top/model.h"

/*
 * Moves a recording by so many nanoseconds from the last sample, and takes the samples that lead to
 * the one there, so that the graphs have what was before it. That one is the next to be taken.
 * 0, or an error of the source or -ENOMEM.
 */
int cm_top_seek(struct cm_top *top, struct cm_watch_source *source, int64_t by_ns);
/* The same for the sample that would be taken next, which --at has chosen. */
int cm_top_lead_in(struct cm_top *top, struct cm_watch_source *source);

#endif
