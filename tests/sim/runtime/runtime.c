/* SPDX-License-Identifier: MIT */
#include "runtime.h"

#include <pthread.h>
#include <stdatomic.h>

enum { MAX_DEVICES = 64 };

static __thread struct rt_thread self = {.generation = 0};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t initialised;
static int device_count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primary[MAX_DEVICES]; /* retained once for the runtime; guarded by lock */
static _Atomic uint64_t generation = 1;

struct rt_thread *rt_thread_self(void)
{
	return &self;
}

const struct rt_driver *rt_driver(void)
{
	return rt_driver_table(self.per_thread);
}

static void initialise_once(void)
{
	initialised = rt_error(rt_driver()->cuInit(0));
	if (initialised == cudaSuccess)
		initialised = rt_error(rt_driver()->cuDeviceGetCount(&device_count));
	if (device_count > MAX_DEVICES)
		device_count = MAX_DEVICES;
	if (initialised == cudaSuccess && !device_count)
		initialised = cudaErrorNoDevice;
}

int rt_device_count(void)
{
	return device_count;
}

cudaError_t rt_primary_context(int device, CUcontext *ret_ctx)
{
	CUresult result = CUDA_SUCCESS;

	if (device < 0 || device >= device_count)
		return cudaErrorInvalidDevice;
	pthread_mutex_lock(&lock);
	if (!primary[device])
		result = rt_driver()->cuDevicePrimaryCtxRetain(&primary[device], device);
	*ret_ctx = primary[device];
	pthread_mutex_unlock(&lock);
	return rt_error(result);
}

static cudaError_t make_current(void)
{
	CUcontext ctx;
	cudaError_t error = rt_primary_context(self.device, &ctx);

	if (error == cudaSuccess)
		error = rt_error(rt_driver()->cuCtxSetCurrent(ctx));
	if (error == cudaSuccess)
		self.generation = atomic_load(&generation);
	return error;
}

/* A context that the program made current by the driver's interface is used as it is. */
static cudaError_t ensure_context(void)
{
	CUcontext current = NULL;
	CUresult result;

	if (self.generation && self.generation != atomic_load(&generation))
		return make_current();
	result = rt_driver()->cuCtxGetCurrent(&current);
	if (result != CUDA_SUCCESS || current)
		return rt_error(result);
	return make_current();
}

cudaError_t rt_use_device(int device)
{
	self.device = device;
	return make_current();
}

void rt_contexts_lost(void)
{
	pthread_mutex_lock(&lock);
	if (primary[self.device])
		(void)rt_driver()->cuDevicePrimaryCtxRelease(self.device);
	primary[self.device] = NULL;
	pthread_mutex_unlock(&lock);
	atomic_fetch_add(&generation, 1);
}

cudaError_t rt_enter(enum rt_need need, bool per_thread)
{
	cudaError_t error = cudaSuccess;

	self.per_thread = per_thread;
	if (need >= RT_BIND)
		error = rt_driver_bind();
	if (need == RT_BIND)
		return cudaSuccess;
	if (error == cudaSuccess && need >= RT_INIT) {
		pthread_once(&once, initialise_once);
		error = initialised;
	}
	if (error == cudaSuccess && need >= RT_CTX)
		error = ensure_context();
	return error;
}

cudaError_t rt_leave(cudaError_t error)
{
	if (error != cudaSuccess)
		self.last_error = error;
	return error;
}
