/* SPDX-License-Identifier: MIT */
/*
 * Which streams are being captured. While any is, the library makes no driver call of its own that
 * a capture forbids: recording an event of the context would end the capture.
 */
#ifndef CM_INTERPOSE_DRIVER_CAPTURE_H
#define CM_INTERPOSE_DRIVER_CAPTURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Captures from before the driver's begin until after its end. For the function below alone. */
extern _Atomic int cm_captures __attribute__((visibility("hidden")));

/* Whether any stream of the process is being captured. One load. */
static inline bool cm_capture_is_active(void)
{
	return atomic_load_explicit(&cm_captures, memory_order_acquire) != 0;
}

/*
 * The gate of allocator/base/ops.h. enter() is true where no capture is active, and holds back a
 * capture that is about to begin until leave().
 */
bool cm_capture_gate_enter(void);
void cm_capture_gate_leave(void);

/* Whether the calling thread has begun a capture that is active: to wait for its end makes no
 * sense. */
bool cm_capture_is_own(void);

/* A context is gone, and the captures of its streams with it. */
void cm_capture_forget_context(uint64_t ctx);

/* In a forked child, which has no captures. */
void cm_capture_forget_all(void);

#endif
