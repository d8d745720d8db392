/* SPDX-License-Identifier: MIT */
/*
 * As much of the CUDA runtime as CUB's allocator calls, on a device that is always idle: events are
 * over as soon as they are recorded, and every call answers at once. What is measured over it is
 * the caller's own work. Memory is the driver's. One device, thread-safe.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#include "instant_count.h"
#include "instant_runtime.h"

static struct instant_counts calls;
static __thread struct instant_count *my_calls;

static cudaError_t answer(void)
{
	instant_count_add(&calls, &my_calls);
	return cudaSuccess;
}

uint64_t instant_runtime_calls(void)
{
	return instant_count_sum(&calls);
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
