/* SPDX-License-Identifier: MIT */
/*
 * Memory outside the cache: what the program gets is the driver's own, and the counters have it by
 * kind until it is gone.
 */
#include <string.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define SECONDS_AT_MOST 60 /* a role that hangs ends so */

static void must_hold(enum cm_uncached_kind kind, int64_t count, uint64_t bytes)
{
	CM_MUST(cm_uncached_count(kind) == count);
	CM_MUST(cm_uncached_bytes(kind) == (int64_t)bytes);
}

CM_ROLE(managed)
{
	CUdeviceptr addr;

	cm_open(0);
	OK(cuMemAllocManaged(&addr, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
	*(volatile char *)(uintptr_t)addr = 1; /* the CPU's too */
	must_hold(CM_UNCACHED_MANAGED, 1, 3 * MIB);
	OK(cuMemFree_v2(addr));
	must_hold(CM_UNCACHED_MANAGED, 0, 0);
	CM_MUST(cuMemFree_v2(addr) == CUDA_ERROR_INVALID_VALUE);
	must_hold(CM_UNCACHED_MANAGED, 0, 0);
}

CM_ROLE(pitch)
{
	CUdeviceptr addr;
	size_t pitch;

	cm_open(0);
	OK(cuMemAllocPitch_v2(&addr, &pitch, 1000, 64, 4));
	must_hold(CM_UNCACHED_PITCH, 1, pitch * 64);
	CM_MUST(pitch == 1024);
	OK(cuMemFree_v2(addr));
	must_hold(CM_UNCACHED_PITCH, 0, 0);
}

CM_ROLE(arrays)
{
	const CUDA_ARRAY_DESCRIPTOR plane = {
		.Width = 100, .Height = 50, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
	const CUDA_ARRAY3D_DESCRIPTOR cube = {.Width = 16,
					      .Height = 16,
					      .Depth = 16,
					      .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					      .NumChannels = 4};
	CUmipmappedArray mipmap;
	CUarray array, volume;

	cm_open(0);
	OK(cuArrayCreate_v2(&array, &plane));
	must_hold(CM_UNCACHED_ARRAY, 1, 100 * 50 * 8);
	OK(cuArray3DCreate_v2(&volume, &cube));
	must_hold(CM_UNCACHED_ARRAY, 2, 100 * 50 * 8 + 16384);
	/* 16, 8, 4 to the third power, and no more of the five halvings. */
	OK(cuMipmappedArrayCreate(&mipmap, &cube, 3));
	must_hold(CM_UNCACHED_ARRAY, 3, 100 * 50 * 8 + 16384 + 4 * (4096 + 512 + 64));
	OK(cuArrayDestroy(array));
	OK(cuArrayDestroy(volume));
	OK(cuMipmappedArrayDestroy(mipmap));
	must_hold(CM_UNCACHED_ARRAY, 0, 0);
	CM_MUST(cuArrayDestroy(array) != CUDA_SUCCESS);
	must_hold(CM_UNCACHED_ARRAY, 0, 0);
}

CM_ROLE(async)
{
	CUdeviceptr addr[4];
	CUmemoryPool pool;
	CUstream stream;
	int i;

	cm_open(0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuMemAllocAsync(&addr[0], MIB, stream));
	OK(cuMemAllocAsync_ptsz(&addr[1], 2 * MIB, NULL));
	OK(cuMemAllocFromPoolAsync(&addr[2], 3 * MIB, pool, stream));
	OK(cuMemAllocFromPoolAsync_ptsz(&addr[3], 4 * MIB, pool, NULL));
	must_hold(CM_UNCACHED_ASYNC, 4, 10 * MIB);
	/* It is of no context, and there is none to end. */
	CM_MUST(cuCtxDestroy_v2(NULL) != CUDA_SUCCESS);
	must_hold(CM_UNCACHED_ASYNC, 4, 10 * MIB);
	OK(cuMemFreeAsync(addr[0], stream));
	OK(cuMemFreeAsync_ptsz(addr[1], NULL));
	must_hold(CM_UNCACHED_ASYNC, 2, 7 * MIB);
	/* cudaFree takes what a pool gave. */
	for (i = 2; i < 4; i++)
		OK(cuMemFree_v2(addr[i]));
	must_hold(CM_UNCACHED_ASYNC, 0, 0);
	CM_MUST(cm_reserved() == 0);
}

/* The pool is that of the stream's device, whatever context is current. */
CM_ROLE(async_elsewhere)
{
	CUdeviceptr addr;
	CUcontext first, second;
	CUstream stream;

	cm_open(0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	(void)cm_get(MIB);
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxPushCurrent_v2(second));
	(void)cm_get(MIB);
	OK(cuMemAllocAsync(&addr, 3 * MIB, stream));
	OK(cuCtxPopCurrent_v2(&first));
	must_hold(CM_UNCACHED_ASYNC, 1, 3 * MIB);
	OK(cuMemFreeAsync(addr, stream));
	must_hold(CM_UNCACHED_ASYNC, 0, 0);
}

/* Where several things are wrong with a call, the driver says which it is. */
CM_ROLE(inner_pointer_in_a_stream)
{
	CUdeviceptr block;
	CUstream stream;
	CUgraph graph;

	cm_open(0);
	block = cm_get(MIB);
	OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CM_MUST(cuMemFreeAsync(block + 256, NULL) == CUDA_ERROR_INVALID_VALUE);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuMemFreeAsync(block, NULL));
	CM_MUST(cuMemFreeAsync(block, NULL) == CUDA_ERROR_INVALID_VALUE);
}

/* The block is the cache's again, but nobody gets it while what was before its free may use it. */
CM_ROLE(block_freed_in_a_stream)
{
	static volatile uint32_t flag;
	CUdeviceptr block, next;
	CUstream stream;
	CUfunction hold;

	cm_open(0);
	hold = cm_load_hold();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	block = cm_get(4 * MIB);
	cm_launch_hold(hold, stream, block, 4 * MIB, &flag);
	OK(cuMemFreeAsync(block, stream));
	CM_MUST(cm_allocated() == 0);
	next = cm_get(4 * MIB);
	CM_MUST(next != block);
	OK(cuMemFree_v2(next));
	flag = 1;
	OK(cuCtxSynchronize());
	CM_MUST(cuMemFreeAsync(block, stream) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cudasim_calls("cuMemFree_v2") == 0);
	CM_MUST(cudasim_calls("cuMemFreeAsync") == 1);
}

/* Where a block is not recycled, either: the free is the driver's, in that stream. The kernel could
 * not end if it waited. */
CM_ROLE(stream_free_under_a_kernel)
{
	static volatile uint32_t flag;
	CUstream stream = NULL, other = NULL;
	CUdeviceptr block, shown, used;
	CUipcMemHandle handle;
	CUfunction hold;

	(void)alarm(SECONDS_AT_MOST);
	cm_open(0);
	hold = cm_load_hold();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	used = cm_get(MIB);
	block = cm_get(4 * MIB);
	shown = cm_get(4 * MIB);
	OK(cuIpcGetMemHandle(&handle, shown));
	cm_launch_hold(hold, stream, used, MIB, &flag);
	OK(cuMemFreeAsync(block, other));
	OK(cuMemFreeAsync(shown, other));
	OK(cuMemFreeAsync(used, stream));
	flag = 1;
	OK(cuCtxSynchronize());
	CM_MUST(cuMemFreeAsync(shown, other) == CUDA_ERROR_INVALID_VALUE);
}

/* Inside a graph only what a graph allocated can be freed: the block stays the program's. */
CM_ROLE(block_freed_in_a_capture)
{
	CUdeviceptr block, addr;
	CUstream stream;
	CUgraph graph;

	cm_open(0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	block = cm_get(4 * MIB);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CM_MUST(cuMemFreeAsync(block, stream) == CUDA_ERROR_INVALID_VALUE);
	/* What a graph allocates is the graph's. */
	OK(cuMemAllocAsync(&addr, MIB, stream));
	OK(cuMemFreeAsync(addr, stream));
	OK(cuStreamEndCapture(stream, &graph));
	must_hold(CM_UNCACHED_ASYNC, 0, 0);
	CM_MUST(cm_allocated() == (int64_t)(4 * MIB));
	OK(cuMemFree_v2(block));
	CM_MUST(cm_allocated() == 0);
}

static const CUmemAllocationProp on_device_0 = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

/* Memory goes with the last of its handles and mappings, in whatever order. */
CM_ROLE(mapped)
{
	CUmemGenericAllocationHandle first, second, again;
	CUdeviceptr range;

	cm_open(0);
	OK(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
	OK(cuMemCreate(&first, 2 * MIB, &on_device_0, 0));
	OK(cuMemCreate(&second, 4 * MIB, &on_device_0, 0));
	must_hold(CM_UNCACHED_VMM, 2, 6 * MIB);
	OK(cuMemMap(range, 2 * MIB, 0, first, 0));
	OK(cuMemMap(range + 2 * MIB, 4 * MIB, 0, second, 0));
	OK(cuMemRelease(first));
	must_hold(CM_UNCACHED_VMM, 2, 6 * MIB);
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + 2 * MIB)));
	CM_MUST(cuMemUnmap(range, 3 * MIB) != CUDA_SUCCESS);
	must_hold(CM_UNCACHED_VMM, 2, 6 * MIB);
	OK(cuMemUnmap(range, 6 * MIB));
	must_hold(CM_UNCACHED_VMM, 1, 4 * MIB);
	OK(cuMemRelease(second));
	must_hold(CM_UNCACHED_VMM, 1, 4 * MIB);
	OK(cuMemRelease(again));
	must_hold(CM_UNCACHED_VMM, 0, 0);
	CM_MUST(cuMemRelease(again) != CUDA_SUCCESS);
	must_hold(CM_UNCACHED_VMM, 0, 0);
}

/* Some libraries create memory on a thread that has no context. */
CM_ROLE(mapped_without_a_context)
{
	CUmemGenericAllocationHandle handle;

	cm_open(0);
	OK(cuCtxSetCurrent(NULL));
	OK(cuMemCreate(&handle, 2 * MIB, &on_device_0, 0));
	must_hold(CM_UNCACHED_VMM, 1, 2 * MIB);
	OK(cuMemRelease(handle));
	must_hold(CM_UNCACHED_VMM, 0, 0);
}

CM_ROLE(refused_free)
{
	CUdeviceptr addr;

	cm_open(0);
	OK(cuMemAllocManaged(&addr, MIB, CU_MEM_ATTACH_GLOBAL));
	CM_MUST(cudasim_fail("cuMemFree_v2", 1, CUDA_ERROR_UNKNOWN) == 0);
	CM_MUST(cuMemFree_v2(addr) == CUDA_ERROR_UNKNOWN);
	must_hold(CM_UNCACHED_MANAGED, 1, MIB);
	OK(cuMemFree_v2(addr));
	must_hold(CM_UNCACHED_MANAGED, 0, 0);
}

/* What a context had goes with it; what no context has does not. */
CM_ROLE(context_end)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr managed, pooled;
	CUcontext ctx;
	size_t pitch;

	cm_open(0);
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAllocPitch_v2(&managed, &pitch, 512, 1, 4));
	OK(cuMemAllocAsync(&pooled, MIB, NULL));
	OK(cuMemCreate(&handle, 2 * MIB, &on_device_0, 0));
	OK(cuCtxDestroy_v2(ctx));
	must_hold(CM_UNCACHED_MANAGED, 0, 0);
	must_hold(CM_UNCACHED_PITCH, 0, 0);
	must_hold(CM_UNCACHED_ASYNC, 1, MIB);
	must_hold(CM_UNCACHED_VMM, 1, 2 * MIB);
}

CM_ROLE(forwarded)
{
	CUdeviceptr addr;
	CUstream stream;
	CUgraph graph;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	addr = cm_get(5 * MIB);
	OK(cuStreamEndCapture(stream, &graph));
	must_hold(CM_UNCACHED_FORWARDED, 1, 5 * MIB);
	CM_MUST(cm_allocated() == 0);
	OK(cuMemFree_v2(addr));
	must_hold(CM_UNCACHED_FORWARDED, 0, 0);
}

CM_PLAY(managed_memory_is_the_drivers_and_counted, "managed", "", NULL)
CM_PLAY(pitched_memory_is_the_drivers_and_counted, "pitch", "", NULL)
CM_PLAY(arrays_and_mipmaps_are_counted, "arrays", "", NULL)
CM_PLAY(pooled_memory_is_counted_and_freed_either_way, "async", "", NULL)
CM_PLAY(pooled_memory_is_counted_where_its_stream_is, "async_elsewhere", "", "CUDASIM=devices:2")
CM_PLAY_EVERYWHERE(an_inner_pointer_in_a_stream_is_refused, "inner_pointer_in_a_stream", NULL)
CM_PLAY(a_block_freed_in_a_stream_waits_for_it, "block_freed_in_a_stream", "", NULL)
CM_PLAY_TEST(a_free_in_a_stream_never_waits)
{
	cm_play(state, "stream_free_under_a_kernel", NULL, NULL);
	cm_play(state, "stream_free_under_a_kernel", "", NULL);
	cm_play(state, "stream_free_under_a_kernel", "placement:exact", NULL);
	cm_play(state, "stream_free_under_a_kernel", "mode:stats", NULL);
}

CM_PLAY(a_block_freed_in_a_capture_stays, "block_freed_in_a_capture", "", NULL)
CM_PLAY(mapped_memory_is_counted_while_anything_holds_it, "mapped", "", NULL)
CM_PLAY(memory_created_without_a_context_is_counted, "mapped_without_a_context", "", NULL)
CM_PLAY(a_refused_free_changes_no_counters, "refused_free", "", NULL)
CM_PLAY(memory_of_a_dead_context_leaves_the_counters, "context_end", "", NULL)
CM_PLAY(what_is_passed_on_during_a_capture_is_counted, "forwarded", "", NULL)
