/* SPDX-License-Identifier: MIT */
/*
 * Contexts come, go, come back under the same handle, stand beside each other: each has its own
 * memory, and takes it along.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static CUcontext context_of(CUdeviceptr addr)
{
	CUcontext ctx;

	OK(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, addr));
	return ctx;
}

/* Blocks in use, waiting and ready; some of them. */
static void use_memory(CUdeviceptr block[8])
{
	int i;

	for (i = 0; i < 8; i++) {
		block[i] = cm_get((uint64_t)(i + 1) * MIB / 2);
		OK(cuMemsetD8Async(block[i], (unsigned char)i, MIB / 2, NULL));
	}
	for (i = 0; i < 4; i++)
		OK(cuMemFree_v2(block[i]));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(block[4]));
}

static void must_be_gone(const CUdeviceptr block[8])
{
	int i;

	for (i = 0; i < 8; i++)
		CM_MUST(cuMemFree_v2(block[i]) == CUDA_ERROR_INVALID_VALUE);
}

static void must_be_empty(void)
{
	if (!cm_is_here())
		return;
	CM_MUST(cudasim_live_allocations(0) == 0);
}

/* The same handle may be the next context's. */
CM_ROLE(destroyed)
{
	CUcontext ctx, last = NULL;
	CUdeviceptr block[8];
	int i, again = 0;

	cm_open(0);
	for (i = 0; i < 20; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		again += ctx == last;
		last = ctx;
		use_memory(block);
		CM_MUST(context_of(block[7]) == ctx);
		if (i % 2)
			OK(cuCtxDestroy_v2(ctx));
		else
			OK(cuCtxDestroy(ctx));
		cm_open(0);
		must_be_gone(block);
		must_be_empty();
	}
	CM_MUST(again > 0);
}

/* As PyCUDA leaves its contexts: the last user takes the memory, no other. */
CM_ROLE(detached)
{
	CUcontext ctx, same;
	CUdeviceptr block[8];
	int i;

	cm_open(0);
	for (i = 0; i < 6; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		OK(cuCtxAttach(&same, 0));
		CM_MUST(same == ctx);
		use_memory(block);
		OK(cuCtxDetach(ctx));
		OK(cuMemsetD8_v2(block[7], 1, MIB));
		OK(cuMemFree_v2(block[7]));
		cm_open(0);
		CM_MUST(cuCtxDetach(ctx) == CUDA_ERROR_INVALID_CONTEXT);
		OK(cuMemFree_v2(block[6]));
		OK(cuCtxSetCurrent(ctx));
		OK(cuCtxDetach(ctx));
		cm_open(0);
		must_be_gone(block);
		must_be_empty();
	}
}

CM_ROLE(reset)
{
	CUdeviceptr block[8];
	CUcontext ctx;
	int i;

	for (i = 0; i < 6; i++) {
		ctx = cm_open(0);
		use_memory(block);
		CM_MUST(context_of(block[7]) == ctx);
		if (i % 2)
			OK(cuDevicePrimaryCtxReset(0));
		else
			OK(cuDevicePrimaryCtxReset_v2(0));
		must_be_empty();
		(void)cm_open(0);
		must_be_gone(block);
	}
}

/* The last release takes the memory, no other. */
CM_ROLE(released)
{
	CUdeviceptr block[8];
	CUcontext ctx;
	int i;

	for (i = 0; i < 6; i++) {
		ctx = cm_open(0);
		OK(cuDevicePrimaryCtxRetain(&ctx, 0));
		use_memory(block);
		OK(cuDevicePrimaryCtxRelease_v2(0));
		OK(cuMemsetD8_v2(block[7], 1, MIB));
		OK(cuMemFree_v2(block[7]));
		if (i % 2)
			OK(cuDevicePrimaryCtxRelease(0));
		else
			OK(cuDevicePrimaryCtxRelease_v2(0));
		must_be_empty();
		(void)cm_open(0);
		must_be_gone(block);
		OK(cuDevicePrimaryCtxRelease_v2(0));
	}
}

/* A primary context is not destroyed so, and keeps all it has. */
CM_ROLE(refused)
{
	CUcontext ctx = cm_open(0);
	CUdeviceptr block[8];
	unsigned char byte;
	void *pinned;
	int i;

	use_memory(block);
	OK(cuMemAllocHost_v2(&pinned, MIB));
	CM_MUST(cuCtxDestroy(ctx) == CUDA_ERROR_INVALID_CONTEXT);
	CM_MUST(cuCtxDestroy_v2(ctx) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemFree_v2(block[5]));
	OK(cuMemcpyDtoH_v2(&byte, block[7], 1));
	CM_MUST(byte == 7);
	OK(cuMemFree_v2(block[6]));
	OK(cuMemFree_v2(block[7]));
	OK(cuMemFreeHost(pinned));
	for (i = 0; i < 4; i++)
		OK(cuMemFree_v2(cm_get(30 * MIB)));
}

/* The driver says no, and has done nothing; later it does. */
CM_ROLE(failed_destroy)
{
	CUdeviceptr block[8], more;
	unsigned char byte;
	CUcontext ctx;
	void *pinned;

	cm_open(0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	use_memory(block);
	OK(cuMemAllocHost_v2(&pinned, MIB));
	CM_MUST(!cudasim_fail("cuCtxDestroy_v2", 1, CUDA_ERROR_INVALID_VALUE));
	CM_MUST(cuCtxDestroy_v2(ctx) == CUDA_ERROR_INVALID_VALUE);
	more = cm_get(30 * MIB);
	OK(cuMemcpyDtoH_v2(&byte, block[7], 1));
	CM_MUST(byte == 7);
	OK(cuMemFree_v2(more));
	OK(cuMemFree_v2(block[5]));
	OK(cuMemFree_v2(block[6]));
	OK(cuMemFreeHost(pinned));
	OK(cuCtxDestroy_v2(ctx));
	cm_open(0);
	must_be_gone(block);
	must_be_empty();
}

/* A request that memory of the driver serves, with some in wait. */
static void *use_other_device(void *arg)
{
	CUdeviceptr block[8];

	OK(cuCtxSetCurrent(arg));
	use_memory(block);
	(void)cm_get(70 * MIB);
	return NULL;
}

/* Another thread, for as long as it takes, while the calling one is inside of the driver. */
static void let_other_device_go(void *arg)
{
	pthread_t thread;

	CM_MUST(!pthread_create(&thread, NULL, use_other_device, arg));
	CM_MUST(!pthread_join(thread, NULL));
}

static void hold_up(CUresult (*end)(CUdevice device), CUcontext other)
{
	CUdeviceptr block[8];

	(void)cm_open(0);
	use_memory(block);
	cudasim_interrupt(1, let_other_device_go, other);
	OK(end(0));
}

CM_ROLE(one_device_ends)
{
	CUcontext other = cm_open(1);
	CUdeviceptr block[8];

	use_memory(block);
	hold_up(cuDevicePrimaryCtxRelease_v2, other);
	hold_up(cuDevicePrimaryCtxReset_v2, other);
}

/* Its memory is reused as ever, while the calling thread is inside of the driver. */
static void *reuse_on_other_device(void *arg)
{
	CUdeviceptr block;
	int i;

	OK(cuCtxSetCurrent(arg));
	cudasim_reset_counters();
	for (i = 0; i < 40; i++) {
		block = cm_get(16 * MIB);
		OK(cuMemsetD8Async(block, 1, 16 * MIB, NULL));
		OK(cuMemFree_v2(block));
	}
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 10);
	CM_MUST(cudasim_peak_bytes(1) <= 128 * MIB);
	return NULL;
}

static void let_other_device_reuse(void *arg)
{
	pthread_t thread;

	CM_MUST(!pthread_create(&thread, NULL, reuse_on_other_device, arg));
	CM_MUST(!pthread_join(thread, NULL));
}

CM_ROLE(one_device_ends_slowly)
{
	CUcontext other = cm_open(1);
	CUdeviceptr block = cm_get(MIB);

	OK(cuMemFree_v2(block));
	(void)cm_open(0);
	block = cm_get(MIB);
	cm_launch_slow(block);
	cudasim_interrupt(1, let_other_device_reuse, other);
	OK(cuDevicePrimaryCtxReset_v2(0));
}

/* The request is the first of all. */
CM_ROLE(one_device_ends_first)
{
	CUcontext other = cm_open(1);

	(void)cm_open(0);
	cudasim_interrupt(1, let_other_device_go, other);
	OK(cuDevicePrimaryCtxRelease_v2(0));
}

/* None of it is given back by us: the driver has done so. */
CM_ROLE(no_frees)
{
	CUdeviceptr block[8];
	CUcontext ctx;
	uint64_t frees;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	use_memory(block);
	frees = cudasim_calls("cuMemFree_v2");
	OK(cuCtxDestroy_v2(ctx));
	CM_MUST(cudasim_calls("cuMemFree_v2") == frees);
	CM_MUST(cm_allocated() == 0);
	CM_MUST(cm_reserved() == (int64_t)(2 * MIB));
	CM_MUST(cm_own_counters(0).heaps == 1);
}

/* ---- several contexts ---- */

/* A thread whose current context is another one frees, as natively, and the memory goes home. */
CM_ROLE(freed_elsewhere)
{
	CUcontext first = cm_open(0), second;
	CUdeviceptr block, other;

	block = cm_get(30 * MIB);
	OK(cuCtxCreate_v2(&second, 0, 0));
	OK(cuMemFree_v2(block));
	OK(cuCtxSynchronize());
	other = cm_get(30 * MIB);
	CM_MUST(context_of(other) == second);
	OK(cuCtxSetCurrent(first));
	block = cm_get(30 * MIB);
	CM_MUST(context_of(block) == first);
	OK(cuMemFree_v2(block));
	OK(cuMemFree_v2(other));
	OK(cuCtxDestroy_v2(second));
}

/* Without a current context the driver takes nothing back, and the block is what it was. */
CM_ROLE(no_context)
{
	CUcontext ctx = cm_open(0);
	CUdeviceptr block = cm_get(3 * MIB);
	void *pinned;

	OK(cuMemAllocHost_v2(&pinned, MIB));
	OK(cuCtxSetCurrent(NULL));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_CONTEXT);
	CM_MUST(cuMemFreeHost(pinned) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemcpyHtoDAsync_v2(block, pinned, MIB, NULL));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(block));
	OK(cuMemFreeHost(pinned));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
}

/* The counters and the memory info are the device's, of all its contexts. */
CM_ROLE(totals)
{
	CUcontext first = cm_open(0), second;
	size_t free_bytes, total;

	(void)cm_get(4 * MIB);
	OK(cuCtxCreate_v2(&second, 0, 0));
	(void)cm_get(4 * MIB);
	OK(cuMemFree_v2(cm_get(30 * MIB)));
	CM_MUST(cm_own_counters(0).heaps == 2);
	CM_MUST(cm_allocated() == (int64_t)(8 * MIB));
	CM_MUST(cm_reserved() == (int64_t)(38 * MIB));
	CM_MUST(cm_own_counters(0).total_bytes == 128 * MIB);
	OK(cuCtxSetCurrent(first));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(total == 128 * MIB && free_bytes == 128 * MIB - 8 * MIB);
}

/* A context goes whose events others wait for. */
CM_ROLE(last_of_two)
{
	static volatile uint32_t flag;
	CUcontext first = cm_open(0), second;
	CUdeviceptr block, scratch;
	CUfunction hold;

	block = cm_get(30 * MIB);
	OK(cuCtxCreate_v2(&second, 0, 0));
	hold = cm_load_hold();
	scratch = cm_get(MIB);
	cm_launch_hold(hold, NULL, scratch, MIB, &flag);
	OK(cuCtxSetCurrent(first));
	OK(cuMemFree_v2(block));
	CM_MUST(cm_get(30 * MIB) != block);
	flag = 1;
	OK(cuCtxDestroy_v2(second));
	CM_MUST(cm_get(30 * MIB) == block);
}

/* The first one, that has no memory, is at work, and the library has started without a request. */
CM_ROLE(first_of_two)
{
	static volatile uint32_t flag;
	struct cm_api api;
	CUdeviceptr block;
	CUcontext second;

	cm_api_open(&api);
	(void)cm_open(0);
	CM_MUST(!api.record_memory_history("all", NULL, "all", UINT64_MAX, 0));
	cm_launch_hold(cm_load_hold(), NULL, 0, 0, &flag);
	OK(cuCtxCreate_v2(&second, 0, 0));
	block = cm_get(30 * MIB);
	OK(cuMemFree_v2(block));
	CM_MUST(cm_get(30 * MIB) != block);
	flag = 1;
}

static atomic_bool stop;

static void *work_in_the_primary(void *arg)
{
	CUdeviceptr block[4];
	int i;

	OK(cuCtxSetCurrent(arg));
	while (!atomic_load(&stop)) {
		for (i = 0; i < 4; i++)
			block[i] = cm_get(MIB * (uint64_t)(i + 1));
		for (i = 0; i < 4; i++) {
			OK(cuMemsetD8Async(block[i], 1, MIB, NULL));
			OK(cuMemFree_v2(block[i]));
		}
		/* A card's queue is bounded, the simulated one's is not. */
		OK(cuCtxSynchronize());
	}
	return NULL;
}

CM_ROLE(coming_and_going)
{
	CUcontext primary = cm_open(0), ctx;
	CUdeviceptr block[8];
	pthread_t thread[2];
	int i;

	for (i = 0; i < 2; i++)
		CM_MUST(!pthread_create(&thread[i], NULL, work_in_the_primary, primary));
	for (i = 0; i < 30; i++) {
		OK(cuCtxCreate_v2(&ctx, 0, 0));
		use_memory(block);
		OK(cuCtxDestroy_v2(ctx));
	}
	atomic_store(&stop, true);
	for (i = 0; i < 2; i++)
		CM_MUST(!pthread_join(thread[i], NULL));
}

CM_PLAY_EVERYWHERE(a_destroyed_context_takes_its_memory, "destroyed", NULL)
CM_PLAY_EVERYWHERE(the_last_detach_takes_all_memory, "detached", NULL)
CM_PLAY_EVERYWHERE(a_reset_takes_all_memory, "reset", NULL)
CM_PLAY_EVERYWHERE(the_last_release_takes_all_memory, "released", NULL)
CM_PLAY_EVERYWHERE(a_refused_destroy_takes_nothing, "refused", NULL)
CM_PLAY_EVERYWHERE(a_destroy_that_fails_takes_nothing, "failed_destroy", NULL)
CM_PLAY_EVERYWHERE(the_end_of_one_device_stops_no_other, "one_device_ends", "CUDASIM=devices:2")
CM_PLAY(nor_does_it_hold_memory_back, "one_device_ends_slowly", "", "CUDASIM=devices:2,memory:6G")
CM_PLAY(nor_does_it_under_12_4, "one_device_ends_slowly", "",
	"CUDASIM=devices:2,memory:6G,version:12040")
CM_PLAY_EVERYWHERE(the_first_request_waits_for_no_end, "one_device_ends_first", "CUDASIM=devices:2")
CM_PLAY(memory_of_a_dead_context_is_not_freed_again, "no_frees", "", NULL)
CM_PLAY_EVERYWHERE(a_block_freed_in_another_context_goes_home, "freed_elsewhere", NULL)
CM_PLAY(the_counters_are_of_all_contexts_of_a_device, "totals", "", "CUDASIM=memory:128M,context:0")
CM_PLAY(an_epoch_survives_the_context_it_waits_for, "last_of_two", "reuse:grow", NULL)
CM_PLAY(an_epoch_waits_for_contexts_without_memory, "first_of_two", "", NULL)
CM_PLAY_EVERYWHERE(contexts_come_and_go_beside_others, "coming_and_going", "CUDASIM=time:real")
CM_PLAY_EVERYWHERE(a_free_without_a_context_is_refused, "no_context", NULL)
