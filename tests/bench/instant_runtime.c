/* SPDX-License-Identifier: MIT */
/*
 * As much of the CUDA runtime as CUB's allocator calls, on a device that is always idle: events are
 * over as soon as they are recorded, and every call answers at once. What is measured over it is
 * the caller's own work. Memory is the driver's. One device, thread-safe.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdint.h>

#include "instant_runtime.h"

/* One count a thread would be cheaper still, but threads come and go. */
static _Atomic uint64_t calls;

static cudaError_t answer(void)
{
	/* No locked instruction: a lost count now and then is the smaller mistake. */
	atomic_store_explicit(&calls, atomic_load_explicit(&calls, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	return cudaSuccess;
}

uint64_t instant_runtime_calls(void)
{
	return atomic_load_explicit(&calls, memory_order_relaxed);
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
	CUdeviceptr addr;

	(void)answer();
	if (cuMemAlloc(&addr, size) != CUDA_SUCCESS)
		return cudaErrorMemoryAllocation;
	*devPtr = (void *)(uintptr_t)addr;
	return cudaSuccess;
}

cudaError_t cudaFree(void *devPtr)
{
	(void)answer();
	return cuMemFree((CUdeviceptr)(uintptr_t)devPtr) == CUDA_SUCCESS ? cudaSuccess
									 : cudaErrorInvalidValue;
}

cudaError_t cudaGetDevice(int *ret_device)
{
	*ret_device = 0;
	return answer();
}

cudaError_t cudaSetDevice(int device)
{
	(void)device;
	return answer();
}

cudaError_t cudaGetLastError(void)
{
	return answer();
}

cudaError_t cudaPeekAtLastError(void)
{
	return answer();
}

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaSuccess ? "no error" : "an error";
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret_event, unsigned int flags)
{
	static int event;

	(void)flags;
	*ret_event = (cudaEvent_t)&event;
	return answer();
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	(void)event;
	return answer();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	(void)event;
	(void)stream;
	return answer();
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	(void)event;
	return answer();
}
