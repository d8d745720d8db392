/* SPDX-License-Identifier: MIT */
/*
 * The frame of every runtime function: binding, the primary context of the thread's device, the
 * last error. The functions themselves are called rt_<exported name> and return what they return.
 */
#ifndef CM_SIM_RUNTIME_RUNTIME_H
#define CM_SIM_RUNTIME_RUNTIME_H

#include "driver.h"

#include <stdint.h>

/* Of cuda_profiler_api.h, which is not among the headers that ./dev fetches. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

/* What a function needs before it can run; each includes the ones before. */
enum rt_need { RT_NONE, RT_BIND, RT_INIT, RT_CTX };

/* What is kept for a thread. */
struct rt_thread {
	int device;
	uint64_t generation; /* of the primary context that was made current */
	bool per_thread;     /* stream 0 of the running call is the thread's own */
	cudaError_t last_error;
};

struct rt_thread *rt_thread_self(void);

/* The driver's functions, for the running call. */
const struct rt_driver *rt_driver(void);

/* Makes ready what the function needs; an error where that fails. */
cudaError_t rt_enter(enum rt_need need, bool per_thread);
/* Remembers an error as the last one. Hands it through. */
cudaError_t rt_leave(cudaError_t error);

/* The codes of both interfaces are the same numbers. */
static inline cudaError_t rt_error(CUresult result)
{
	return (cudaError_t)result;
}

/* The primary contexts of all threads are stale from here on: the device was reset. */
void rt_contexts_lost(void);
/* The thread's device changed: the next call that needs a context makes its own one current. */
cudaError_t rt_use_device(int device);
/* The primary context of a device, kept for as long as the runtime runs. */
cudaError_t rt_primary_context(int device, CUcontext *ret_ctx);
/* How many devices there are; RT_INIT was asked for. */
int rt_device_count(void);

#define CALL(name, need, params, args)         cudaError_t rt_##name params;
#define PAIR(name, suffix, need, params, args) cudaError_t rt_##name params;
#include "runtime.def"
#undef CALL
#undef PAIR

#endif
