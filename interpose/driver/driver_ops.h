/* SPDX-License-Identifier: MIT */
/*
 * The real driver and the real clock behind the allocator's table of functions
 * (allocator/base/ops.h). process.c adds the entries that do not concern the driver (peers,
 * reports). Thread-safe.
 */
#ifndef CM_INTERPOSE_DRIVER_DRIVER_OPS_H
#define CM_INTERPOSE_DRIVER_DRIVER_OPS_H

#include "allocator/base/ops.h"
#include "interpose/symbols/hooks.h"

const struct cm_driver_ops *cm_driver_ops(void);

/* Whether the driver can map memory of the device in pages of this size. */
bool cm_driver_has_pages(int32_t ordinal, uint64_t bytes);

/* The program frees the allocation at `addr` in a stream. */
struct cm_stream_free {
	uint64_t addr;
	CUstream stream;
	CUresult (*call)(CUdeviceptr addr, CUstream stream);
};

/* From here on a return of just that allocation by the calling thread is that call, which does not
 * wait for the device as cuMemFree does. With addr 0 it is cuMemFree again. */
void cm_driver_free_in_stream(struct cm_stream_free how);

/* `work_number` and `work_ended` of struct cm_driver_ops: work that may run without bound. Alone in
 * their cache line, since every launch writes both. */
struct cm_work {
	_Alignas(64) uint64_t number;
	uint64_t ended;
};
extern struct cm_work cm_work __attribute__((visibility("hidden")));

/* Before such work is submitted. If an epoch had a free before this and is closed after it, the
 * epoch is not clean. */
static inline void cm_work_note(void)
{
	(void)__atomic_fetch_add(&cm_work.number, 1, __ATOMIC_RELAXED);
}

/* Once for each note, when the driver has answered. A thread that leaves the call by longjmp or
 * cancellation does not come here: from then on exchanges always ask the device. */
static inline void cm_work_end(void)
{
	(void)__atomic_fetch_add(&cm_work.ended, 1, __ATOMIC_RELEASE);
}

#endif
