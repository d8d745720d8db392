/* SPDX-License-Identifier: MIT */
/* Contexts with an error that lasts: the program hears it as natively, and others are not hurt. */
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* Its error is the program's to hear, from the driver, as natively; another context is not hurt. */
static void play_broken(void)
{
	CUdeviceptr block, addr;
	CUcontext ctx, other;
	CUfunction hold;
	uint32_t flag = 1;

	cm_open(0);
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	hold = cm_load_hold();
	block = cm_get(30 * MIB);
	addr = cm_get(30 * MIB);
	CM_MUST(!cudasim_fail("cuMemsetD8_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS));
	cm_launch_hold(hold, NULL, block, MIB, &flag);
	CM_MUST(cuMemsetD8_v2(block, 1, MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
	(void)cuMemFree_v2(block);
	(void)cuMemFree_v2(addr);
	CM_MUST(cuMemAlloc_v2(&addr, 60 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuMemAlloc_v2(&addr, 30 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuMemAllocManaged(&addr, MIB, 1) == CUDA_ERROR_ILLEGAL_ADDRESS);
	OK(cuCtxSetCurrent(other));
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	OK(cuCtxDestroy_v2(ctx));
	OK(cuMemFree_v2(cm_get(30 * MIB)));
}

/* What one device has suffered ends no reuse on the other, whose memory is enough natively. */
static void play_broken_beside(void)
{
	CUcontext first, second;
	CUdeviceptr block;
	int i;

	first = cm_open(0);
	block = cm_get(30 * MIB);
	second = cm_open(1);
	for (i = 0; i < 40; i++) {
		if (i == 20) {
			OK(cuCtxSetCurrent(first));
			CM_MUST(!cudasim_fail("cuMemsetD8_v2", 1, CUDA_ERROR_ILLEGAL_ADDRESS));
			CM_MUST(cuMemsetD8_v2(block, 1, MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
			OK(cuCtxSetCurrent(second));
		}
		block = cm_get(100 * MIB);
		OK(cuMemsetD8_v2(block, 1, MIB));
		OK(cuMemFree_v2(block));
		OK(cuCtxSynchronize());
	}
}

/* A launch hears first that a kernel before it has failed; then a free hears it too. */
static void play_broken_launch(void)
{
	CUdeviceptr block[3], pair[2];
	CUfunction hold;
	uint32_t flag = 1;

	cm_open(0);
	hold = cm_load_hold();
	block[0] = cm_get(30 * MIB);
	pair[0] = cm_get(3 * MIB);
	pair[1] = cm_get(3 * MIB);
	CM_MUST(!cudasim_fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_FAILED));
	{
		CUdeviceptr addr = block[0], word = (uintptr_t)&flag;
		uint64_t bytes = MIB;
		void *params[] = {&addr, &bytes, &word};

		CM_MUST(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) ==
			CUDA_ERROR_LAUNCH_FAILED);
	}
	CM_MUST(cuMemFree_v2(block[0]) == CUDA_ERROR_LAUNCH_FAILED);
	CM_MUST(cuMemFree_v2(pair[0]) == CUDA_ERROR_LAUNCH_FAILED);
	CM_MUST(cuMemAlloc_v2(&block[1], MIB) == CUDA_ERROR_LAUNCH_FAILED);
	CM_MUST(cuMemFree_v2(pair[1]) == CUDA_ERROR_LAUNCH_FAILED);
}

/* A kernel that fails unseen: a free that waits hears it, as natively; one that does not, and is
 * the first call since, can't. */
static void play_broken_unseen(void)
{
	uint32_t flag = 1;
	CUdeviceptr block;
	CUfunction hold;

	cm_open(0);
	hold = cm_load_hold();
	block = cm_get(30 * MIB);
	cm_launch_hold(hold, NULL, block, 300 * MIB, &flag);
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* After each of them a request that ready memory could serve goes to the driver, and hears it
 * again. */
static void play_lasting(void)
{
	static const CUresult lasting[] = {
		CUDA_ERROR_ECC_UNCORRECTABLE,
		CUDA_ERROR_NVLINK_UNCORRECTABLE,
		CUDA_ERROR_CONTAINED,
		CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT,
		CUDA_ERROR_ASSERT,
		CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION,
		CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE,
		CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED,
		CUDA_ERROR_TENSOR_MEMORY_LEAK,
		CUDA_ERROR_MPS_CLIENT_TERMINATED,
		CUDA_ERROR_EXTERNAL_DEVICE,
	};
	CUdeviceptr block[3], addr;
	CUcontext ctx;
	uint64_t calls;
	size_t i, k;

	cm_open(0);
	for (i = 0; i < sizeof(lasting) / sizeof(lasting[0]); i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		for (k = 0; k < 3; k++)
			block[k] = cm_get(30 * MIB);
		for (k = 0; k < 3; k++)
			OK(cuMemFree_v2(block[k]));
		/* What serves one is ready for all of them. */
		(void)cm_get(30 * MIB);
		calls = cudasim_calls("cuMemAlloc_v2");
		(void)cm_get(30 * MIB);
		CM_MUST(cudasim_calls("cuMemAlloc_v2") == calls);
		CM_MUST(!cudasim_fail("cuMemAlloc_v2", 1, lasting[i]));
		CM_MUST(cuMemAlloc_v2(&addr, 512) == lasting[i]);
		CM_MUST(cuMemAlloc_v2(&addr, 30 * MIB) == lasting[i]);
		CM_MUST(cudasim_calls("cuMemAlloc_v2") == calls + 2);
		OK(cuCtxDestroy_v2(ctx));
	}
}

static const struct cm_role roles[] = {
	{"broken", play_broken},
	{"broken_beside", play_broken_beside},
	{"lasting", play_lasting},
	{"broken_launch", play_broken_launch},
	{"broken_unseen", play_broken_unseen},
	{NULL, NULL},
};

CM_PLAY_EVERYWHERE(a_broken_context_tells_its_error, "broken", NULL)
CM_PLAY_EVERYWHERE(a_broken_context_leaves_other_devices_alone, "broken_beside",
		   "CUDASIM=devices:2,memory:1G")
CM_PLAY(nothing_is_cached_after_an_error_that_lasts, "lasting", "", NULL)
CM_PLAY_EVERYWHERE(a_free_tells_what_a_launch_has_heard, "broken_launch", NULL)
CM_PLAY(a_native_free_tells_what_has_failed, "broken_unseen", NULL, NULL)
CM_PLAY(a_free_that_waits_tells_what_has_failed, "broken_unseen", "sync:free", NULL)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CM_PLAY_TEST(a_broken_context_tells_its_error),
		CM_PLAY_TEST(a_broken_context_leaves_other_devices_alone),
		CM_PLAY_TEST(nothing_is_cached_after_an_error_that_lasts),
		CM_PLAY_TEST(a_free_tells_what_a_launch_has_heard),
		CM_PLAY_TEST(a_native_free_tells_what_has_failed),
		CM_PLAY_TEST(a_free_that_waits_tells_what_has_failed),
	};

	cm_rerun_role(argc, argv, roles);
	return cmocka_run_group_tests_name("surface_broken", tests, NULL, NULL);
}
