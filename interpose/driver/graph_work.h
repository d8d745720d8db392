/* SPDX-License-Identifier: MIT */
/*
 * What the work of an executable graph reaches: memory of the host (host_work.h), and memory of
 * which devices (reach.h). Both are found once, when the graph is instantiated. An update may
 * change addresses, but neither the kind of memory nor the device that a node reaches, nor the
 * context of a kernel (cuda.h, cuGraphExecUpdate, cuGraphExecKernelNodeSetParams). Copies and fills
 * are found by their addresses, kernels by what the hooks saw (graph_kernels.h). What is not known
 * counts as reaching everything. Thread-safe. Makes driver calls that are legal during captures.
 */
#ifndef CM_INTERPOSE_DRIVER_GRAPH_WORK_H
#define CM_INTERPOSE_DRIVER_GRAPH_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* `exec` was made of `graph`, which still stands. Walks its nodes. */
void cm_graph_work_note(CUgraphExec exec, CUgraph graph);

/* Whether a launch of it is work whose effects the host can see (host_work.h). */
bool cm_graph_work_reaches_host(CUgraphExec exec);

/* The devices whose memory a launch of it names, a bit each, by their rows; only if
 * cm_reach_is_watched. */
uint64_t cm_graph_work_named(CUgraphExec exec);

/* The devices whose memory it may reach, a bit each, by their ordinals. */
uint64_t cm_graph_work_devices(CUgraphExec exec);

/* It is about to be destroyed. */
void cm_graph_work_forget(CUgraphExec exec);

/* In a forked child, which has none. */
void cm_graph_work_forget_all(void);

#endif
