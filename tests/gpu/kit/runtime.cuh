/* SPDX-License-Identifier: MIT */
/*
 * For programs of the CUDA runtime, compiled by nvcc. Where kernels have no effect, on the simulated
 * device, a program goes through all the same and tells no results of theirs.
 */
#ifndef CM_GPU_KIT_RUNTIME_CUH
#define CM_GPU_KIT_RUNTIME_CUH

#include <cuda_runtime.h>

#include "tests/gpu/kit/library.h"
#include "tests/gpu/kit/tell.h"

/* Ends the program where the call fails, with its text and the error's name. */
#define CHECK(call) runtime_check((call), #call)

static inline void runtime_check(cudaError_t result, const char *call)
{
	if (result == cudaErrorNoDevice || result == cudaErrorStubLibrary)
		tell_skipped("no CUDA device: %s", cudaGetErrorName(result));
	if (result != cudaSuccess)
		tell_failure("%s: %s", call, cudaGetErrorName(result));
}

static __global__ void runtime_mark(int *mark)
{
	*mark = 7;
}

/* Do kernels have an effect here? */
static inline bool runtime_kernels_run(void)
{
	int mark = 0;
	int *at;

	CHECK(cudaMalloc(&at, sizeof(*at)));
	CHECK(cudaMemset(at, 0, sizeof(*at)));
	runtime_mark<<<1, 1>>>(at);
	CHECK(cudaGetLastError());
	CHECK(cudaMemcpy(&mark, at, sizeof(mark), cudaMemcpyDeviceToHost));
	CHECK(cudaFree(at));
	return mark == 7;
}

#endif
