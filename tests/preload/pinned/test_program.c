/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory as CUDA documents it: passes without the library, under it, and under each of
 * its options.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/preload/pinned/pinned.h"

CASE(every_block_answers_for_its_kind)
{
	unsigned kind, round, flags;
	CUmemorytype type;
	CUdeviceptr device;
	void *ptr;

	for (round = 0; round < 3; round++)
		for (kind = 0; kind < KINDS; kind++) {
			ptr = get_kind(kind, 5 * KIB);
			flags = 77;
			assert_int_equal(cuMemHostGetFlags(&flags, ptr), CUDA_SUCCESS);
			assert_int_equal(flags, kind == KINDS - 1 ? 0 : kind);
			assert_int_equal(cuMemHostGetDevicePointer(&device, ptr, 0), CUDA_SUCCESS);
			assert_int_equal(cuPointerGetAttribute(&type,
							       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
							       (CUdeviceptr)(uintptr_t)ptr),
					 CUDA_SUCCESS);
			assert_int_equal(type, CU_MEMORYTYPE_HOST);
			put(ptr);
		}
}

CASE(block_can_be_used_to_its_last_byte)
{
	static const size_t sizes[] = {1, 511, 513, 4096, 4097, 100000, MIB + 1, 9 * MIB + 513};
	size_t i, round;
	char *ptr;

	for (round = 0; round < 2; round++)
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			ptr = get(sizes[i]);
			memset(ptr, 0x5a, sizes[i]);
			assert_int_equal((uintptr_t)ptr % 512, 0);
			put(ptr);
		}
}

CASE(odd_requests_get_the_drivers_answer)
{
	void *ptr = &ptr;

	assert_int_equal(cuMemHostAlloc(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 4096, 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 4096, ~0u), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, (size_t)1 << 62, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAllocHost(&ptr, 0), CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(ptr, &ptr);
}

CASE(bad_free_gets_the_drivers_answer)
{
	char local, *ptr = get(8 * KIB), *other = get(8 * KIB);
	CUdeviceptr device;

	assert_int_equal(cuMemAlloc(&device, 4096), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(ptr + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost((void *)(uintptr_t)device), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree((CUdeviceptr)(uintptr_t)ptr), CUDA_ERROR_INVALID_VALUE);
	put(ptr);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	put(other);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
}

CASE(copy_on_its_way_reaches_no_later_block)
{
	CUdeviceptr device;
	CUstream stream;
	char *ptr, *later;
	size_t i;

	assert_int_equal(cuMemAlloc(&device, MIB), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD8(device, 0xdd, MIB), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	ptr = get(MIB);
	assert_int_equal(cudasim_plan("copy:50ms"), 0);
	assert_int_equal(cuMemcpyDtoHAsync(ptr, device, MIB, stream), CUDA_SUCCESS);
	put(ptr);
	later = get(MIB);
	memset(later, 0x11, MIB);
	cudasim_complete_all();
	for (i = 0; i < MIB && later[i] == 0x11; i++)
		;
	assert_int_equal(i, MIB);
	put(later);
	assert_int_equal(cudasim_plan("copy:0ns"), 0);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
}

CASE(destroyed_context_frees_what_it_made)
{
	void *ptr, *portable, *kept = get(64 * KIB);
	CUcontext other;

	assert_int_equal(cuCtxCreate(&other, NULL, 0, 0), CUDA_SUCCESS);
	ptr = get(64 * KIB);
	portable = get_kind(CU_MEMHOSTALLOC_PORTABLE, 64 * KIB);
	put(get(64 * KIB));
	assert_int_equal(cuCtxDestroy(other), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(portable), CUDA_ERROR_INVALID_VALUE);
	memset(get(64 * KIB), 0x22, 64 * KIB);
	put(kept);
}

CASE(registering_passes)
{
	char *pages = aligned_alloc(4096, 16 * KIB);
	unsigned flags = 0;

	assert_int_equal(cuMemHostRegister(pages, 12 * KIB, CU_MEMHOSTREGISTER_PORTABLE),
			 CUDA_SUCCESS);
	assert_int_equal(cuMemHostRegister(pages, 4 * KIB, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_SUCCESS);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_not_equal(cuMemHostGetFlags(&flags, pages), CUDA_SUCCESS);
	free(pages);
}

CASE(driver_without_memory_is_heard)
{
	void *ptr = &ptr;

	assert_int_equal(cudasim_fail(ALLOC, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cudasim_fail(ALLOC, 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cuMemHostAlloc(&ptr, 48 * KIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_ptr_equal(ptr, &ptr);
}

CASE(free_during_a_capture_is_harmless)
{
	void *ptr = get(96 * KIB);
	CUgraph graph = NULL;
	CUstream stream;

	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_SUCCESS);
	put(ptr);
	put(get(96 * KIB));
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_non_null(graph);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

/* As natively, and the block stays. */
CASE(free_in_a_global_capture_is_forbidden)
{
	void *ptr = get(96 * KIB), *other = NULL;
	CUgraph graph = NULL;
	CUstream stream;

	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	assert_int_equal(cuMemAllocHost(&other, 96 * KIB), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	put(ptr);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}
