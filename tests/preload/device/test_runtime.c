/* SPDX-License-Identifier: MIT */
/*
 * Device memory through the CUDA runtime: results, and the last error that it keeps, are the same
 * without the library and under it.
 */
#include <cuda_runtime_api.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define FINE(call) CM_MUST((call) == cudaSuccess)

/* The call answers so, and so does the question for the last error, once. */
static void expect(cudaError_t answer, cudaError_t result)
{
	CM_MUST(answer == result);
	CM_MUST(cudaPeekAtLastError() == result);
	CM_MUST(cudaGetLastError() == result);
	CM_MUST(cudaGetLastError() == cudaSuccess);
}

CM_ROLE(last_error)
{
	void *block = NULL, *other;

	FINE(cudaMalloc(&block, 3 * MIB));
	FINE(cudaMalloc(&other, 3 * MIB));
	expect(cudaMalloc(&other, (size_t)1 << 62), cudaErrorMemoryAllocation);
	expect(cudaMalloc(NULL, 512), cudaErrorInvalidValue);
	expect(cudaFree((char *)block + 512), cudaErrorInvalidValue);
	expect(cudaFree((void *)4096), cudaErrorInvalidValue);
	FINE(cudaFree(block));
	expect(cudaFree(block), cudaErrorInvalidValue);
	FINE(cudaFree(NULL));
	CM_MUST(cudaGetLastError() == cudaSuccess);
	/* An error that stands is not cleared by a request that is served. */
	CM_MUST(cudaFree(block) == cudaErrorInvalidValue);
	FINE(cudaMalloc(&block, 3 * MIB));
	CM_MUST(cudaGetLastError() == cudaErrorInvalidValue);
	FINE(cudaFree(block));
	FINE(cudaFree(other));
}

CM_ROLE(nothing_asked_for)
{
	void *block = (void *)77;

	FINE(cudaMalloc(&block, 0));
	CM_MUST(block == NULL);
	FINE(cudaFree(block));
	CM_MUST(cudaGetLastError() == cudaSuccess);
}

CM_PLAY_EVERYWHERE(results_and_last_error_are_the_runtimes_own, "last_error", NULL)
CM_PLAY_EVERYWHERE(a_request_for_nothing_gets_nothing, "nothing_asked_for", NULL)
