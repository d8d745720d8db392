/* SPDX-License-Identifier: MIT */
/*
 * On which devices the kernels of a graph run. A kernel reaches the memory of its device, and the
 * driver does not tell which one that is. So the hooks keep a set of devices for each graph, to
 * which they add what captures, added nodes, children and changes bring. The set only grows. A
 * graph whose making no hook has seen counts as running on all devices. A set has a bit for each
 * device, by its ordinal. Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_GRAPH_KERNELS_H
#define CM_INTERPOSE_DRIVER_GRAPH_KERNELS_H

#include <stdint.h>

#include "interpose/symbols/hooks.h"

#define CM_ALL_ORDINALS UINT64_MAX

/* ---- where kernels run; these ask the driver only for the thread's own state ---- */

/* The device of a context that lives; all if the driver does not tell. */
uint64_t cm_device_of_context(uint64_t ctx);

/* The current context has loaded the module, or has found that of a function. */
void cm_graph_kernels_note_module(CUmodule module);
void cm_graph_kernels_note_function(CUfunction function);

/* The device of a kernel that a call has put into a node: of a function, or of a kernel in a
 * context if the function is NULL. */
uint64_t cm_device_of_kernel(CUfunction function, CUcontext ctx);

/* ---- graphs; these never call the driver ---- */

/* The program has got a new graph, whose kernels run on these devices. */
void cm_graph_kernels_note(CUgraph graph, uint64_t devices);

/* Kernels of these devices may have been added to the graph. If it is NULL, or the table does not
 * have it, that may be a part of any graph. */
void cm_graph_kernels_add(CUgraph graph, uint64_t devices);

/* How often kernels were added to a graph that is not in the table. */
uint64_t cm_graph_kernels_changes(void);

/* cm_graph_kernels_note for the graph of a capture that began when so many changes had happened.
 * Others may have been kernels for this graph. */
void cm_graph_kernels_note_captured(CUgraph graph, uint64_t devices, uint64_t changes);

/* The graph is about to be destroyed, or is a part of another one from now on. Its handle may come
 * back as that of a part, which the table never has. */
void cm_graph_kernels_forget(CUgraph graph);

/* The devices on which kernels of the graph may run. */
uint64_t cm_graph_kernels_devices(CUgraph graph);

/* In a forked child, which has none. */
void cm_graph_kernels_forget_all(void);

#endif
