/* SPDX-License-Identifier: MIT */
/*
 * The calls of the driver that a cache makes on its way, on a device that is always idle: events
 * are over as soon as they are recorded, and every call answers at once, as instant_runtime.c does
 * for CUB. So what is measured over it is the library's own work. Preloaded behind the library; all
 * else, memory above all, is the simulated driver's. Thread-safe.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "instant_count.h"
#include "instant_driver.h"

#define EXPORT __attribute__((visibility("default")))

static struct instant_counts calls, current_calls;
static __thread struct instant_count *my_calls, *my_current_calls;

/* The calling thread's, known until somebody changes it. */
static __thread CUcontext current;
static __thread bool is_known;

EXPORT uint64_t instant_driver_calls(void)
{
	return instant_count_sum(&calls);
}

EXPORT uint64_t instant_driver_current_calls(void)
{
	return instant_count_sum(&current_calls);
}

static CUresult answer(void)
{
	instant_count_add(&calls, &my_calls);
	return CUDA_SUCCESS;
}

/* The simulated driver's function of that name. */
static void find(const char *name, void *ret_function)
{
	void *found = dlsym(RTLD_NEXT, name);

	memcpy(ret_function, &found, sizeof(found));
}

static __attribute__((noinline)) CUresult ask_current(void)
{
	__typeof__(cuCtxGetCurrent) *next;
	CUresult result;

	find("cuCtxGetCurrent", &next);
	result = next(&current);
	is_known = result == CUDA_SUCCESS;
	return result;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *pctx)
{
	CUresult result = __builtin_expect(is_known, 1) ? CUDA_SUCCESS : ask_current();

	instant_count_add(&current_calls, &my_current_calls);
	*pctx = current;
	return result;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext ctx)
{
	__typeof__(cuCtxSetCurrent) *next;

	is_known = false;
	find("cuCtxSetCurrent", &next);
	return next(ctx);
}

EXPORT CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
	__typeof__(cuCtxPushCurrent_v2) *next;

	is_known = false;
	find("cuCtxPushCurrent_v2", &next);
	return next(ctx);
}

EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
	__typeof__(cuCtxPopCurrent_v2) *next;

	is_known = false;
	find("cuCtxPopCurrent_v2", &next);
	return next(pctx);
}

EXPORT CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	(void)hCtx;
	(void)hEvent;
	return answer();
}

EXPORT CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	(void)hCtx;
	(void)hEvent;
	return answer();
}

EXPORT CUresult cuEventQuery(CUevent hEvent)
{
	(void)hEvent;
	return answer();
}
