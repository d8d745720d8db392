/* SPDX-License-Identifier: MIT */
/*
 * Pinned memory through the CUDA runtime: its calls arrive at the same cache. CACHED in the
 * environment: the library is there, and what the driver was not asked shows.
 */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cudasim.h"
#include "tests/unit/cmocka_all.h"

#define KIB ((size_t)1 << 10)

static bool is_cached(void)
{
	return getenv("CACHED") != NULL;
}

static int reset_device(void **state)
{
	(void)state;
	return cudaDeviceReset() != cudaSuccess;
}

#define CASE(test) CM_TEST_WITH(test, NULL, reset_device)

CASE(mallochost_and_hostalloc_share_a_cache)
{
	void *ptr, *again;
	uint64_t calls;

	assert_int_equal(cudaMallocHost(&ptr, 100 * KIB), cudaSuccess);
	memset(ptr, 1, 100 * KIB);
	assert_int_equal(cudaFreeHost(ptr), cudaSuccess);
	calls = cudasim_calls("cuMemHostAlloc") + cudasim_calls("cuMemFreeHost");
	assert_int_equal(cudaHostAlloc(&again, 100 * KIB, cudaHostAllocDefault), cudaSuccess);
	assert_int_equal(cudaFreeHost(again), cudaSuccess);
	if (is_cached()) {
		assert_ptr_equal(again, ptr);
		assert_int_equal(cudasim_calls("cuMemHostAlloc") + cudasim_calls("cuMemFreeHost"),
				 calls);
	}
}

CASE(flags_and_device_pointer_are_the_blocks_own)
{
	static const unsigned flags[] = {
		cudaHostAllocDefault,
		cudaHostAllocPortable,
		cudaHostAllocMapped,
		cudaHostAllocWriteCombined | cudaHostAllocMapped,
	};
	void *ptr, *device;
	unsigned got;
	size_t i, round;

	for (round = 0; round < 2; round++)
		for (i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
			assert_int_equal(cudaHostAlloc(&ptr, 20 * KIB, flags[i]), cudaSuccess);
			assert_int_equal(cudaHostGetFlags(&got, ptr), cudaSuccess);
			assert_int_equal(got, flags[i]);
			assert_int_equal(cudaHostGetDevicePointer(&device, ptr, 0), cudaSuccess);
			assert_int_equal(cudaFreeHost(ptr), cudaSuccess);
		}
}

CASE(errors_are_the_runtimes_own)
{
	void *ptr = &ptr;

	assert_int_equal(cudaHostAlloc(NULL, 1, 0), cudaErrorInvalidValue);
	assert_int_equal(cudaHostAlloc(&ptr, 1, 0x1000), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
	assert_int_equal(cudaMallocHost(&ptr, 0), cudaSuccess);
	assert_null(ptr);
	assert_int_equal(cudaFreeHost(NULL), cudaSuccess);
	assert_int_equal(cudaGetLastError(), cudaSuccess);
	assert_int_equal(cudaMallocHost(&ptr, 30 * KIB), cudaSuccess);
	assert_int_equal(cudaFreeHost(ptr), cudaSuccess);
	assert_int_equal(cudaFreeHost(ptr), cudaErrorInvalidValue);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

CASE(device_reset_frees_pinned_memory)
{
	void *ptr, *idle;

	assert_int_equal(cudaMallocHost(&idle, 50 * KIB), cudaSuccess);
	assert_int_equal(cudaMallocHost(&ptr, 50 * KIB), cudaSuccess);
	assert_int_equal(cudaFreeHost(idle), cudaSuccess);
	assert_int_equal(cudaDeviceReset(), cudaSuccess);
	assert_int_equal(cudaFreeHost(ptr), cudaErrorInvalidValue);
	(void)cudaGetLastError();
	assert_int_equal(cudaMallocHost(&ptr, 50 * KIB), cudaSuccess);
	memset(ptr, 2, 50 * KIB);
	assert_int_equal(cudaFreeHost(ptr), cudaSuccess);
}

CASE(registering_passes)
{
	char *pages = aligned_alloc(4096, 8 * KIB);

	assert_int_equal(cudaHostRegister(pages, 8 * KIB, cudaHostRegisterDefault), cudaSuccess);
	assert_int_equal(cudaHostUnregister(pages), cudaSuccess);
	assert_int_equal(cudaHostUnregister(pages), cudaErrorHostMemoryNotRegistered);
	free(pages);
}
