/* SPDX-License-Identifier: MIT */
/*
 * What the hooks do not reach, and what is different for that. A program must run on there too:
 * what goes past us is the driver's, as natively. CALLER in the environment is a library that finds
 * the driver by itself.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "stats/counters.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static struct {
	int (*open)(const char *path);
	void *(*find)(const char *name);
	int (*start)(void);
	CUresult (*alloc)(CUdeviceptr *addr, size_t bytes);
	CUresult (*free)(CUdeviceptr addr);
} caller;

static void *find(void *library, const char *name)
{
	void *function = dlsym(library, name);

	CM_MUST(function);
	return function;
}

static void load_caller(void *library)
{
	CM_MUST(library);
	caller.open = (__typeof__(caller.open))find(library, "caller_open");
	caller.find = (__typeof__(caller.find))find(library, "caller_find");
	caller.start = (__typeof__(caller.start))find(library, "caller_start");
	caller.alloc = (__typeof__(caller.alloc))find(library, "caller_alloc");
	caller.free = (__typeof__(caller.free))find(library, "caller_free");
	CM_MUST(caller.open(getenv("DRIVER")));
}

static void load_deep(void)
{
	load_caller(dlopen(getenv("CALLER"), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND));
}

/* The calls of the program's own driver for memory; others a thread of the library may make. */
static uint64_t count_calls(void)
{
	return cudasim_calls("cuMemAlloc_v2") + cudasim_calls("cuMemFree_v2");
}

/* Of the same driver, so it is seen from outside that it was not served by the cache. */
CM_ROLE(deep)
{
	CUdeviceptr block, ours;
	uint64_t calls;
	int i;

	cm_open(0);
	ours = cm_get(3 * MIB);
	load_deep();
	for (i = 0; i < 3; i++) {
		calls = count_calls();
		OK(caller.alloc(&block, 3 * MIB));
		OK(cuMemsetD8_v2(block, 1, 3 * MIB));
		OK(caller.free(block));
		CM_MUST(count_calls() == calls + 2);
	}
	/* What it has got, others can give back. */
	OK(caller.alloc(&block, 3 * MIB));
	OK(cuMemFree_v2(block));
	CM_MUST(caller.free(block) == CUDA_ERROR_INVALID_VALUE);
	OK(cuMemFree_v2(ours));
}

/* The other way round the driver gets the address of a block of ours, and knows it only where the
 * block is an allocation of its own. */
CM_ROLE(deep_free)
{
	CUdeviceptr block[4];
	int i, round;

	cm_open(0);
	load_deep();
	for (round = 0; round < 5; round++) {
		for (i = 0; i < 4; i++) {
			block[i] = cm_get(3 * MIB);
			OK(cuMemsetD8_v2(block[i], (unsigned char)i, 3 * MIB));
		}
		for (i = 0; i < 4; i++) {
			unsigned char byte = 77;

			OK(cuMemcpyDtoH_v2(&byte, block[i] + 5, 1));
			CM_MUST(byte == i);
			OK(caller.free(block[i]));
		}
	}
	/* The driver gives the addresses again, and so the counters learn of it. */
	for (i = 0; i < 4; i++)
		block[i] = cm_get(3 * MIB);
	if (cm_is_here()) {
		const struct cm_device_row row = cm_own_counters(0);

		CM_MUST(cm_stat_current(&row, CM_STAT_ALLOCATION) == 4);
	}
	for (i = 0; i < 4; i++)
		OK(cuMemFree_v2(block[i]));
	for (i = 0; i < 4; i++)
		CM_MUST(cuMemFree_v2(block[i]) == CUDA_ERROR_INVALID_VALUE);
}

/* A namespace of its own has a driver of its own, and neither sees the other. */
CM_ROLE(namespace)
{
	CUdeviceptr block;
	uint64_t calls;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(3 * MIB)));
	load_caller(dlmopen(LM_ID_NEWLM, getenv("CALLER"), RTLD_NOW | RTLD_LOCAL));
	CM_MUST(caller.start());
	calls = count_calls();
	OK(caller.alloc(&block, 3 * MIB));
	OK(caller.free(block));
	CM_MUST(count_calls() == calls);
	OK(cuMemFree_v2(cm_get(3 * MIB)));
}

/* A context of the library's making, on device 0; it is current. */
static CUcontext make_past_the_hooks(void)
{
	CUcontext ctx;

	load_deep();
	CM_MUST(caller.start());
	OK(cuCtxGetCurrent(&ctx));
	return ctx;
}

/* The other device is let in before there is any memory of ours. */
CM_ROLE(deep_peer)
{
	static const uint32_t flag = 1;
	CUcontext second = cm_open(1), first = make_past_the_hooks();
	CUdeviceptr block;

	OK(cuCtxSetCurrent(second));
	OK(cuCtxEnablePeerAccess(first, 0));
	OK(cuCtxSetCurrent(first));
	block = cm_get(3 * MIB);
	OK(cuCtxSetCurrent(second));
	cm_launch_hold(cm_load_hold(), NULL, block, 3 * MIB, &flag);
	OK(cuCtxSynchronize());
}

/* It is at work on what it may have reached by a copy, and is known from now on. */
CM_ROLE(deep_peer_works)
{
	static volatile uint32_t flag;
	CUcontext second = cm_open(1), first = make_past_the_hooks();
	CUdeviceptr block;

	OK(cuCtxSetCurrent(second));
	block = cm_get(30 * MIB);
	OK(cuCtxEnablePeerAccess(first, 0));
	OK(cuCtxSetCurrent(first));
	cm_launch_hold(cm_load_hold(), NULL, 0, 0, &flag);
	OK(cuCtxSetCurrent(second));
	OK(cuMemFree_v2(block));
	CM_MUST(cm_get(30 * MIB) != block);
	flag = 1;
}

/* Memory that is passed on and counted is the first that we hear of the context. */
CM_ROLE(deep_detach)
{
	CUcontext first = cm_open(0), ctx;
	CUdeviceptr managed, block;

	OK(cuMemFree_v2(cm_get(MIB)));
	ctx = make_past_the_hooks();
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	block = cm_get(3 * MIB);
	OK(cuCtxDetach(ctx));
	OK(cuCtxSetCurrent(first));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
}

/* The library's own way to a context of device 0. */
static CUcontext retain_past_the_hooks(void)
{
	__typeof__(cuDevicePrimaryCtxRetain) *retain;
	CUcontext ctx;

	retain = (__typeof__(retain))caller.find("cuDevicePrimaryCtxRetain");
	OK(retain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

/* The two blocks are of one allocation. */
static void get_two(CUdeviceptr block[2])
{
	block[0] = cm_get(MIB / 2);
	block[1] = cm_get(MIB / 2);
	OK(cuMemsetD8_v2(block[1], 1, MIB / 2));
}

static void must_be_gone(const CUdeviceptr block[2])
{
	CM_MUST(cuMemFree_v2(block[1]) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemFree_v2(block[0]) == CUDA_ERROR_INVALID_VALUE);
}

/* That it is the primary one only the driver knows. */
CM_ROLE(deep_primary)
{
	CUdeviceptr block[2];
	CUcontext first, ctx;

	(void)cm_open(1);
	load_deep();
	first = retain_past_the_hooks();
	get_two(block);
	CM_MUST(cuCtxDestroy_v2(first) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuMemFree_v2(block[0]));
	OK(cuMemsetD8_v2(block[1], 1, MIB / 2));
	OK(cuMemFree_v2(block[1]));
	get_two(block);
	OK(cuDevicePrimaryCtxReset_v2(0));
	ctx = retain_past_the_hooks();
	CM_MUST(ctx == first);
	must_be_gone(block);
	get_two(block);
	OK(cuDevicePrimaryCtxRelease_v2(0));
	OK(cuMemsetD8_v2(block[1], 1, MIB / 2));
	OK(cuDevicePrimaryCtxRelease_v2(0));
	CM_MUST(retain_past_the_hooks() == first);
	must_be_gone(block);
}

/* A handle comes back, and what had it before has ended past the hooks. */
CM_ROLE(deep_end)
{
	__typeof__(cuDevicePrimaryCtxReset_v2) *reset;
	__typeof__(cuCtxDestroy_v2) *destroy;
	CUcontext primary = cm_open(0), ctx;
	CUdeviceptr block[2];

	load_deep();
	reset = (__typeof__(reset))caller.find("cuDevicePrimaryCtxReset_v2");
	destroy = (__typeof__(destroy))caller.find("cuCtxDestroy_v2");
	get_two(block);
	OK(reset(0));
	CM_MUST(cm_open(0) == primary);
	must_be_gone(block);
	get_two(block);

	OK(cuCtxCreate_v2(&ctx, 0, 0));
	get_two(block);
	OK(destroy(ctx));
	OK(cuCtxCreate_v2(&primary, 0, 0));
	CM_MUST(primary == ctx);
	must_be_gone(block);
	get_two(block);

	/* Who ends it once more is refused, as there is none. */
	OK(destroy(ctx));
	CM_MUST(cuCtxDestroy_v2(ctx) == CUDA_ERROR_INVALID_CONTEXT);
	cm_open(0);
	must_be_gone(block);
}

static void retain_again(void *retain)
{
	CUcontext ctx;

	OK(((__typeof__(cuDevicePrimaryCtxRetain) *)retain)(&ctx, 0));
}

/* The primary context is active once more when we look whether it has gone. */
CM_ROLE(deep_retain)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(3 * MIB);
	load_deep();
	cudasim_interrupt(2, retain_again, caller.find("cuDevicePrimaryCtxRetain"));
	OK(cuDevicePrimaryCtxReset_v2(0));
	(void)cm_open(0);
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
}

/* Where there are several devices, the context of a stream is kept in mind. */
static uint64_t contexts_asked_for(CUstream stream, CUevent event)
{
	const uint64_t before = cudasim_calls("cuStreamGetCtx");

	(void)cuStreamWaitEvent(stream, event, 0);
	return cudasim_calls("cuStreamGetCtx") - before;
}

/* The next stream may have the handle of one that went with a context, whoever made that. */
CM_ROLE(deep_streams)
{
	CUcontext first, ctx;
	CUstream stream;
	CUevent event;

	first = cm_open(1);
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	(void)cm_get(MIB);
	(void)cm_open(2);
	(void)cm_get(MIB);
	load_deep();
	(void)retain_past_the_hooks();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CM_MUST(contexts_asked_for(stream, event) == 1);
	CM_MUST(contexts_asked_for(stream, event) == 0);
	OK(cuCtxSetCurrent(first));
	OK(cuDevicePrimaryCtxReset_v2(0));
	CM_MUST(contexts_asked_for(stream, event) == 1);

	ctx = make_past_the_hooks();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CM_MUST(contexts_asked_for(stream, event) == 1);
	OK(cuCtxDetach(ctx));
	OK(cuCtxSetCurrent(first));
	CM_MUST(contexts_asked_for(stream, event) == 1);
}

/* A capture ends with its context, whoever made that: the cache is at work again. */
CM_ROLE(deep_capture)
{
	CUcontext first = cm_open(1);
	CUdeviceptr block;
	CUstream stream;

	OK(cuMemFree_v2(cm_get(3 * MIB)));
	load_deep();
	(void)retain_past_the_hooks();
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuCtxSetCurrent(first));
	OK(cuDevicePrimaryCtxReset_v2(0));
	block = cm_get(3 * MIB);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == 1);
	OK(cuMemFree_v2(block));
}

CM_PLAY_EVERYWHERE(a_deeply_bound_library_talks_to_the_driver, "deep", NULL)
CM_PLAY(a_deeply_bound_library_frees_what_others_took, "deep_free", NULL, NULL)
CM_PLAY(a_deeply_bound_library_frees_exact_blocks_too, "deep_free", "placement:exact", NULL)
CM_PLAY(a_deeply_bound_library_frees_in_stats_mode_too, "deep_free", "mode:stats", NULL)
CM_PLAY_EVERYWHERE(a_context_made_past_the_hooks_is_reached, "deep_peer", "CUDASIM=devices:2")
CM_PLAY(an_epoch_waits_for_a_peer_made_past_the_hooks, "deep_peer_works", "", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_context_made_past_the_hooks_takes_its_memory, "deep_detach", NULL)
CM_PLAY_EVERYWHERE(a_primary_context_met_by_chance_is_told, "deep_primary", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_context_that_ends_past_the_hooks_leaves_nothing, "deep_end", NULL)
CM_PLAY_EVERYWHERE(a_reset_takes_all_memory_of_one_that_is_back, "deep_retain", NULL)
CM_PLAY(a_context_that_is_not_known_takes_its_streams, "deep_streams", "", "CUDASIM=devices:3")
CM_PLAY(a_context_that_is_not_known_takes_its_capture, "deep_capture", "", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(a_namespace_has_a_driver_of_its_own, "namespace", NULL)
