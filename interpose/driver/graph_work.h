/* SPDX-License-Identifier: MIT */
/*
 * Which executable graphs hold work whose effects the host can see (host_work.h). Decided once,
 * when a graph is instantiated: an update may change addresses, not the kind of memory that a node
 * reaches (cuda.h, cuGraphExecUpdate). A graph that is not known counts as one that does.
 * Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_GRAPH_WORK_H
#define CM_INTERPOSE_DRIVER_GRAPH_WORK_H

#include <stdbool.h>

#include "interpose/symbols/hooks.h"

/* `exec` was made of `graph`, which still stands. Walks its nodes; makes driver calls that are
 * legal during captures. */
void cm_graph_work_note(CUgraphExec exec, CUgraph graph);

/* Whether a launch of it is work whose effects the host can see (host_work.h). */
bool cm_graph_work_reaches_host(CUgraphExec exec);

#endif
