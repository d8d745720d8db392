/* SPDX-License-Identifier: MIT */
/*
 * Counts the stream captures of the process. While one is active, the library makes no driver call
 * of its own that a capture forbids: recording an event of the context would invalidate the
 * capture. Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_CAPTURE_H
#define CM_INTERPOSE_DRIVER_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* Captures under way, from before the driver's begin to after its end. Only for the function
 * below. */
extern _Atomic int cm_captures __attribute__((visibility("hidden")));

/* Whether any stream of the process is being captured. One load. */
static inline bool cm_capture_is_active(void)
{
	return atomic_load_explicit(&cm_captures, memory_order_acquire) != 0;
}

/* The gate of allocator/base/ops.h. enter() returns true if no capture is active, and then delays a
 * capture that is about to begin until leave(). */
bool cm_capture_gate_enter(void);
void cm_capture_gate_leave(void);

/* Whether the calling thread began a capture that is active: waiting for its end would never
 * finish. */
bool cm_capture_is_own(void);

/* What the driver says of the stream, as the calling thread names it. Returns its result. */
CUresult cm_capture_status(CUstream stream, bool per_thread, CUstreamCaptureStatus *ret_status);

/* Whether work for the stream is captured into a graph, and not submitted. */
bool cm_capture_takes_work(CUstream stream, bool per_thread);

/* Kernels of these devices may have been added to the capture in which the stream, as the calling
 * thread names it, takes part (graph_kernels.h). */
void cm_capture_note_work(CUstream stream, bool per_thread, uint64_t devices);

/* Destroys the stream by the driver's function `real`, inside the hook: a capture of it ends with
 * it. Returns the driver's result. */
CUresult cm_capture_destroy_stream(CUstream stream, CUresult (*real)(CUstream stream));

/* A context was destroyed: drops the captures of its streams. */
void cm_capture_forget_context(uint64_t ctx);

/* In a forked child, which has none, and no graphs. */
void cm_capture_forget_all(void);

#endif
