/* SPDX-License-Identifier: MIT */
/*
 * Of which context the kernels of a graph are. A kernel reaches the device of its context, and the
 * driver does not tell which context that is. But all kernels that a capture records are of the
 * contexts of its streams. So the kernels of a graph are known if one capture has made it, all
 * streams of that capture are of one context, and nothing has added or replaced a kernel of any
 * graph since the capture began. Thread-safe; never calls the driver.
 */
#ifndef CM_INTERPOSE_DRIVER_CAPTURED_GRAPH_H
#define CM_INTERPOSE_DRIVER_CAPTURED_GRAPH_H

#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* Kernels are about to be added to a graph, or replaced, other than by a capture of a new graph. */
void cm_captured_graph_note_change(void);
/* How often that has happened. */
uint64_t cm_captured_graph_changes(void);

/* A capture that began when so many changes had happened has made the graph. All of its kernels are
 * of the context; 0: not known. */
void cm_captured_graph_note(CUgraph graph, uint64_t ctx, uint64_t changes);

/* The context of all kernels of the graph; 0: not known. */
uint64_t cm_captured_graph_context(CUgraph graph);

/* In a forked child, which has none. */
void cm_captured_graph_forget_all(void);

#endif
