/* SPDX-License-Identifier: MIT */
/*
 * Device memory through the driver's functions, as CUDA documents it: the roles pass without the
 * library, under it, and under each of its modes.
 */
#include <string.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define N(list) (sizeof(list) / sizeof((list)[0]))

CM_ROLE(odd_requests)
{
	static const size_t too_much[] = {(size_t)1 << 62, SIZE_MAX / 2, SIZE_MAX - 511, SIZE_MAX};
	CUdeviceptr addr;
	size_t i, round;

	cm_open(0);
	for (round = 0; round < 2; round++) {
		addr = 77;
		CM_MUST(cuMemAlloc_v2(&addr, 0) == CUDA_ERROR_INVALID_VALUE);
		CM_MUST(cuMemAlloc_v2(NULL, 512) == CUDA_ERROR_INVALID_VALUE);
		for (i = 0; i < N(too_much); i++)
			CM_MUST(cuMemAlloc_v2(&addr, too_much[i]) == CUDA_ERROR_OUT_OF_MEMORY);
		CM_MUST(addr == 77);
		/* The second round meets a heap that holds something. */
		OK(cuMemFree_v2(cm_get(3 * MIB)));
	}
}

CM_ROLE(blocks)
{
	static const size_t sizes[] = {1, 511, 512, 513, MIB, MIB + 1, 10 * MIB, 33 * MIB + 7};
	CUdeviceptr block[N(sizes)];
	size_t i, k, round;

	cm_open(0);
	for (round = 0; round < 3; round++) {
		for (i = 0; i < N(sizes); i++) {
			block[i] = cm_get(sizes[i]);
			CM_MUST(block[i] % 512 == 0);
			for (k = 0; k < i; k++)
				CM_MUST(block[i] + sizes[i] <= block[k] ||
					block[k] + sizes[k] <= block[i]);
			OK(cuMemsetD8_v2(block[i], (unsigned char)i, sizes[i]));
		}
		for (i = 0; i < N(sizes); i++) {
			unsigned char byte = 255;

			OK(cuMemcpyDtoH_v2(&byte, block[i] + sizes[i] - 1, 1));
			CM_MUST(byte == i);
			OK(cuMemFree_v2(block[i]));
		}
	}
}

CM_ROLE(bad_frees)
{
	CUdeviceptr block, other, stale;
	static char host[512];

	cm_open(0);
	block = cm_get(2 * MIB);
	other = cm_get(2 * MIB);
	CM_MUST(cuMemFree_v2(block + 512) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(block + 1) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2((CUdeviceptr)(uintptr_t)host) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(~(CUdeviceptr)0) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(512) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(block));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
	/* Nothing of that has hurt the neighbour. */
	OK(cuMemsetD8_v2(other, 1, 2 * MIB));
	OK(cuMemFree_v2(other));
	stale = other;
	block = cm_get(30 * MIB);
	CM_MUST(block == stale || cuMemFree_v2(stale) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(block));
}

CM_ROLE(without_context)
{
	CUdeviceptr addr = 77;

	CM_MUST(cuMemAlloc_v2(&addr, 512) == CUDA_ERROR_NOT_INITIALIZED);
	OK(cuInit(0));
	CM_MUST(cuMemAlloc_v2(&addr, 512) == CUDA_ERROR_INVALID_CONTEXT);
	CM_MUST(addr == 77);
}

CM_ROLE(too_much)
{
	CUdeviceptr block[40], addr = 77;
	size_t n = 0, i;
	CUresult result;

	cm_open(0);
	while (n < N(block) && (result = cuMemAlloc_v2(&block[n], 32 * MIB)) == CUDA_SUCCESS)
		n++;
	CM_MUST(n == 31 || n == 32);
	CM_MUST(result == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(cuMemAlloc_v2(&addr, 33 * MIB) == CUDA_ERROR_OUT_OF_MEMORY && addr == 77);
	for (i = 0; i < n; i++)
		OK(cuMemFree_v2(block[i]));
	OK(cuMemFree_v2(cm_get(900 * MIB)));
}

CM_PLAY_EVERYWHERE(odd_requests_get_the_drivers_answer, "odd_requests", NULL)
CM_PLAY_EVERYWHERE(blocks_keep_what_is_written_and_never_overlap, "blocks", NULL)
CM_PLAY_EVERYWHERE(bad_frees_get_the_drivers_answer, "bad_frees", NULL)
CM_PLAY_EVERYWHERE(without_a_context_the_driver_answers, "without_context", NULL)
CM_PLAY_EVERYWHERE(a_full_device_is_heard_of_and_can_be_used_again, "too_much", "CUDASIM=memory:1G")
