/* SPDX-License-Identifier: MIT */
/* Contexts with an error that lasts: the program hears it as natively, and others are not hurt. */
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* Its error is the program's to hear, from the driver, as natively; another context is not hurt. */
CM_ROLE(broken)
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
CM_ROLE(broken_beside)
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
CM_ROLE(broken_launch)
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
CM_ROLE(broken_unseen)
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

/* A kernel that fails unseen beside idle memory; the next call hears it, and all that follow. */
static void hear_by(CUresult (*call)(CUdeviceptr block))
{
	uint32_t flag = 1;
	CUdeviceptr block, other, addr;
	CUfunction hold;

	cm_open(0);
	hold = cm_load_hold();
	block = cm_get(30 * MIB);
	other = cm_get(30 * MIB);
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	OK(cuCtxSynchronize());
	cm_launch_hold(hold, NULL, block, 300 * MIB, &flag);
	CM_MUST(call(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuMemAlloc_v2(&addr, 30 * MIB) == CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuMemFree_v2(other) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

static CUresult wait_for_all(CUdeviceptr block)
{
	(void)block;
	return cuCtxSynchronize();
}

CM_ROLE(broken_wait)
{
	hear_by(wait_for_all);
}

static CUresult fetch(CUdeviceptr block)
{
	uint32_t word;

	return cuMemcpyDtoH_v2(&word, block, sizeof(word));
}

CM_ROLE(broken_copy)
{
	hear_by(fetch);
}

/* Work for a stream of another device hears what that device has suffered: the current context is
 * served by its cache as before. */
static void hear_elsewhere(CUresult (*submit)(CUdeviceptr block, CUstream stream))
{
	uint32_t flag = 1;
	CUdeviceptr block;
	CUstream stream;
	CUfunction hold;
	uint64_t calls;

	cm_open(0);
	hold = cm_load_hold();
	block = cm_get(30 * MIB);
	stream = cm_new_stream();
	(void)cm_open(1);
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	OK(cuCtxSynchronize());
	cm_launch_hold(hold, stream, block, 300 * MIB, &flag);
	cudasim_complete_all();
	CM_MUST(submit(block, stream) == CUDA_ERROR_ILLEGAL_ADDRESS);
	calls = cudasim_calls("cuMemAlloc_v2");
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == calls);
}

static CUresult fetch_in_stream(CUdeviceptr block, CUstream stream)
{
	static uint32_t word;

	return cuMemcpyDtoHAsync_v2(&word, block, sizeof(word), stream);
}

CM_ROLE(broken_copy_elsewhere)
{
	hear_elsewhere(fetch_in_stream);
}

static void CUDA_CB do_nothing(void *data)
{
	(void)data;
}

static CUresult call_in_stream(CUdeviceptr block, CUstream stream)
{
	(void)block;
	return cuLaunchHostFunc(stream, do_nothing, NULL);
}

CM_ROLE(broken_call_elsewhere)
{
	hear_elsewhere(call_in_stream);
}

#define KEPT     1000         /* MiB of idle memory */
#define CARD_MIB (80 * 1024u) /* of the large card */

/* Fails a kernel unseen, beside idle memory that serves the requests to come. */
static void fail_unseen(void)
{
	static CUdeviceptr block[KEPT];
	uint32_t flag = 1;
	CUfunction hold;
	int i;

	cm_open(0);
	hold = cm_load_hold();
	for (i = 0; i < KEPT; i++)
		block[i] = cm_get(MIB);
	for (i = 1; i < KEPT; i++)
		OK(cuMemFree_v2(block[i]));
	OK(cuCtxSynchronize());
	/* They are ready once one of them was wanted. */
	OK(cuMemFree_v2(cm_get(MIB)));
	cm_launch_hold(hold, NULL, block[0], 30 * MIB, &flag);
	cudasim_complete_all();
}

/* How much is freed until a request or a free hears of it. */
static uint64_t free_until_heard(uint64_t bytes)
{
	CUresult res = CUDA_SUCCESS;
	uint64_t freed = 0;
	CUdeviceptr block;

	while (res == CUDA_SUCCESS && freed < 2 * KEPT * MIB) {
		res = cuMemAlloc_v2(&block, bytes);
		if (res == CUDA_SUCCESS)
			res = cuMemFree_v2(block);
		if (res == CUDA_SUCCESS)
			freed += bytes;
	}
	CM_MUST(res == CUDA_ERROR_ILLEGAL_ADDRESS);
	return freed;
}

CM_ROLE(late)
{
	/* Two batches, each of 1/25 of what is reserved and 32 MiB at least. */
	const uint64_t most = 2 * (KEPT * MIB / 25 > 32 * MIB ? KEPT * MIB / 25 : 32 * MIB);

	fail_unseen();
	CM_MUST(free_until_heard(MIB) <= most);
}

CM_ROLE(late_small)
{
	fail_unseen();
	CM_MUST(free_until_heard(MIB / 16) <= 64 * MIB);
}

/* A loop over one block is small for this card, and lets more wait until the driver is asked: what
 * it has reserved, which is 1/128 of the card beyond 6 GiB. */
CM_ROLE(late_on_large_card)
{
	const uint64_t most = 2 * (CARD_MIB - 6 * 1024) / 128 * MIB, bytes = 16 * MIB;
	uint32_t flag = 1;
	CUdeviceptr block;
	CUfunction hold;
	uint64_t freed;
	int i;

	cm_open(0);
	hold = cm_load_hold();
	for (i = 0; i < 400; i++) {
		block = cm_get(bytes);
		cm_launch_hold(hold, NULL, block, MIB, &flag);
		OK(cuMemFree_v2(block));
	}
	cm_launch_hold(hold, NULL, cm_get(MIB), CARD_MIB * MIB, &flag);
	cudasim_complete_all();
	freed = free_until_heard(bytes);
	CM_MUST(freed > 64 * MIB && freed <= most);
}

CM_ROLE(at_once)
{
	fail_unseen();
	CM_MUST(free_until_heard(MIB) == 0);
}

/* The next launch hears it, and so does what comes behind that. */
CM_ROLE(heard_by_a_launch)
{
	CUdeviceptr block;
	CUfunction hold;
	uint32_t flag = 1;
	uint64_t bytes = MIB;
	CUdeviceptr word = (uintptr_t)&flag;
	void *params[] = {&block, &bytes, &word};

	fail_unseen();
	block = cm_get(MIB);
	hold = NULL;
	CM_MUST(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) ==
		CUDA_ERROR_ILLEGAL_ADDRESS);
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* After each of them a request that ready memory could serve goes to the driver, and hears it
 * again. */
CM_ROLE(lasting)
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

/* A context with an error that nobody has heard of yet; another one, of device 1, is current. */
static CUcontext fail_elsewhere(CUdeviceptr *ret_block, CUdeviceptr *ret_own)
{
	CUcontext first = cm_open(0);
	const CUfunction hold = cm_load_hold();
	static uint32_t flag = 1;

	*ret_block = cm_get(30 * MIB);
	cm_launch_hold(hold, NULL, *ret_block, 300 * MIB, &flag);
	cudasim_complete_all();
	(void)cm_open(1);
	*ret_own = cm_get(30 * MIB);
	return first;
}

/* A free tells of the context that is current, whichever has the block. */
CM_ROLE(freed_elsewhere)
{
	CUdeviceptr block, own;
	CUcontext first = fail_elsewhere(&block, &own);

	OK(cuMemFree_v2(block));
	OK(cuMemFree_v2(own));
	OK(cuCtxSetCurrent(first));
	CM_MUST(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Nor does the wait for what the host can see of that device hurt the current context. */
CM_ROLE(freed_behind_a_copy)
{
	static uint32_t flag = 1, word;
	CUdeviceptr block;
	CUfunction hold;
	uint64_t calls;

	cm_open(0);
	hold = cm_load_hold();
	block = cm_get(30 * MIB);
	OK(cuMemcpyDtoHAsync_v2(&word, block, sizeof(word), cm_new_stream()));
	cm_launch_hold(hold, NULL, block, 300 * MIB, &flag);
	(void)cm_open(1);
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	OK(cuCtxSynchronize());
	cudasim_complete_all();
	OK(cuMemFree_v2(block));
	calls = cudasim_calls("cuMemAlloc_v2");
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == calls);
}

CM_ROLE(freed_from_there)
{
	CUdeviceptr block, own;
	CUcontext first = fail_elsewhere(&block, &own);

	OK(cuCtxSetCurrent(first));
	CM_MUST(cuMemFree_v2(own) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

CM_PLAY_EVERYWHERE(a_broken_context_tells_its_error, "broken", NULL)
CM_PLAY_EVERYWHERE(a_broken_context_leaves_other_devices_alone, "broken_beside",
		   "CUDASIM=devices:2,memory:1G")
CM_PLAY(a_copy_tells_of_the_device_of_its_stream, "broken_copy_elsewhere", "", "CUDASIM=devices:2")
CM_PLAY(a_host_function_tells_of_the_device_of_its_stream, "broken_call_elsewhere", "",
	"CUDASIM=devices:2")
CM_PLAY(nothing_is_cached_after_an_error_that_lasts, "lasting", "", NULL)
CM_PLAY_EVERYWHERE(a_free_tells_what_a_launch_has_heard, "broken_launch", NULL)
CM_PLAY_EVERYWHERE(a_request_tells_what_a_wait_has_heard, "broken_wait", NULL)
CM_PLAY_EVERYWHERE(a_request_tells_what_a_copy_has_heard, "broken_copy", NULL)
CM_PLAY(a_native_free_tells_what_has_failed, "broken_unseen", NULL, NULL)
CM_PLAY(a_free_that_waits_tells_what_has_failed, "broken_unseen", "sync:free", NULL)
CM_PLAY(a_native_request_tells_at_once, "at_once", NULL, NULL)
CM_PLAY(a_native_request_tells_at_once_in_stats_mode, "at_once", "mode:stats", NULL)
CM_PLAY(a_request_tells_within_two_batches, "late", "", NULL)
CM_PLAY(a_small_request_tells_within_two_batches, "late_small", "", NULL)
CM_PLAY(a_request_tells_later_on_a_large_card, "late_on_large_card", "", "CUDASIM=memory:80G")
CM_PLAY(a_launch_tells_first, "heard_by_a_launch", "", NULL)
CM_PLAY_EVERYWHERE(a_free_elsewhere_tells_nothing, "freed_elsewhere", "CUDASIM=devices:2")
CM_PLAY(a_free_elsewhere_hurts_no_other_context, "freed_behind_a_copy", "", "CUDASIM=devices:2")
CM_PLAY(a_native_free_tells_of_the_current_context, "freed_from_there", NULL, "CUDASIM=devices:2")
CM_PLAY(so_does_one_in_stats_mode, "freed_from_there", "mode:stats", "CUDASIM=devices:2")
