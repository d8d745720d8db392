/* SPDX-License-Identifier: MIT */
/*
 * Submitted work whose effects the host can see: copies to and from host memory, host functions,
 * and whatever writes to managed or mapped memory. A native cudaFree waits for the device, so a
 * program may read what such work writes, and write what it reads, after a free and no other
 * synchronisation. With sync:auto a cached free waits for this work and for no other. With
 * sync:free the allocator waits for the block's own context, and this module for the other contexts
 * of the device.
 *
 * A stream is entered after the driver has accepted the work and before that call returns to the
 * program. So every free that comes after the call, on any thread, finds it here. Only the set of
 * streams with such work is kept; a stream that is found idle is removed until its next work.
 *
 * A free waits for an event behind the work, if more work was submitted to the stream since; else
 * for an event that it records itself. While a stream is being captured the driver forbids both,
 * and the free has another way to wait (wrappers/memory.c).
 *
 * Thread-safe. Functions are called inside the hook (symbols/hooks.h).
 */
#ifndef CM_INTERPOSE_DRIVER_HOST_WORK_H
#define CM_INTERPOSE_DRIVER_HOST_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "allocator/base/attr.h"
#include "interpose/core/unusual.h"
#include "interpose/symbols/hooks.h"

/* Set once a kernel may reach memory that the host reads too: managed or mapped. */
extern _Atomic bool cm_host_work_kernels __attribute__((visibility("hidden")));

extern _Atomic bool cm_host_work_is_off __attribute__((visibility("hidden")));

/* Whether frees wait for such work: not with sync:never. */
static inline bool cm_host_work_is_on(void)
{
	return !atomic_load_explicit(&cm_host_work_is_off, memory_order_relaxed);
}

/* Whether a free may have to wait. One load. */
static inline bool cm_host_work_exists(void)
{
	return CM_UNLIKELY(cm_unusual_is(CM_UNUSUAL_HOST_WORK));
}

/* Whether kernels count, too. */
static inline bool cm_host_work_has_kernels(void)
{
	return atomic_load_explicit(&cm_host_work_kernels, memory_order_relaxed);
}

/* From here on no stream is entered and no free waits. */
void cm_host_work_disable(void);

/* The host has got memory that kernels can reach without a copy. */
void cm_host_work_include_kernels(void);

/* The driver has accepted such work on the stream, as the calling thread names it. Makes driver
 * calls only for a stream that it does not know. */
void cm_host_work_note(CUstream stream, bool per_thread);

/* Other work is about to be submitted to the stream. If frees have waited for such work before,
 * records an event behind that work, so that the next free does not wait for more. */
void cm_host_work_before_other(CUstream stream, bool per_thread);

/*
 * Waits until such work of every context of the device is done, which a native free of memory of
 * that device would have waited for as well. Blocks. Returns a sticky error that the driver
 * answered with, of the context *ret_ctx; CUDA_ERROR_NOT_READY if a capture did not let it wait;
 * else CUDA_SUCCESS.
 */
CUresult cm_host_work_await(CUdevice device, uint64_t *ret_ctx);

/* The stream is about to be destroyed; its work goes on. */
void cm_host_work_forget_stream(CUstream stream);
/* The context has ended, and its work with it. */
void cm_host_work_forget_context(uint64_t ctx);
/* In a forked child, which has no work. */
void cm_host_work_forget_all(void);

#endif
