/* SPDX-License-Identifier: MIT */
/*
 * A limit on the process holds for every kind of device memory, whichever kinds it has already, and
 * the program sees no more of the device than that.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define LIMIT   (64 * MIB)
#define THREADS 4
#define ROUNDS  300

static const CUmemAllocationProp on_device_0 = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUmemoryPool pool;

static CUresult get_block(uint64_t bytes, uint64_t *name)
{
	return cuMemAlloc_v2((CUdeviceptr *)name, bytes);
}

static CUresult get_managed(uint64_t bytes, uint64_t *name)
{
	return cuMemAllocManaged((CUdeviceptr *)name, bytes, CU_MEM_ATTACH_GLOBAL);
}

static CUresult get_pitched(uint64_t bytes, uint64_t *name)
{
	size_t pitch;

	return cuMemAllocPitch_v2((CUdeviceptr *)name, &pitch, 1024, bytes / 1024, 4);
}

static CUresult get_async(uint64_t bytes, uint64_t *name)
{
	return cuMemAllocAsync((CUdeviceptr *)name, bytes, NULL);
}

static CUresult get_from_pool(uint64_t bytes, uint64_t *name)
{
	return cuMemAllocFromPoolAsync((CUdeviceptr *)name, bytes, pool, NULL);
}

static CUresult get_plane(uint64_t bytes, uint64_t *name)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {.Width = 1024,
					     .Height = bytes / 4096,
					     .Format = CU_AD_FORMAT_FLOAT,
					     .NumChannels = 1};

	return cuArrayCreate_v2((CUarray *)(void *)name, &shape);
}

static CUDA_ARRAY3D_DESCRIPTOR cube_of(uint64_t bytes)
{
	return (CUDA_ARRAY3D_DESCRIPTOR){.Width = 1024,
					 .Height = 64,
					 .Depth = bytes / 262144,
					 .Format = CU_AD_FORMAT_FLOAT,
					 .NumChannels = 1};
}

static CUresult get_cube(uint64_t bytes, uint64_t *name)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = cube_of(bytes);

	return cuArray3DCreate_v2((CUarray *)(void *)name, &shape);
}

static CUresult get_mipmap(uint64_t bytes, uint64_t *name)
{
	const CUDA_ARRAY3D_DESCRIPTOR shape = cube_of(bytes);

	return cuMipmappedArrayCreate((CUmipmappedArray *)(void *)name, &shape, 1);
}

static CUresult get_handle(uint64_t bytes, uint64_t *name)
{
	return cuMemCreate((CUmemGenericAllocationHandle *)name, bytes, &on_device_0, 0);
}

/* Passed on, as a capture is active. */
static CUresult get_in_a_capture(uint64_t bytes, uint64_t *name)
{
	CUstream stream;
	CUgraph graph;
	CUresult res;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	res = cuMemAlloc_v2((CUdeviceptr *)name, bytes);
	OK(cuStreamEndCapture(stream, &graph));
	return res;
}

static CUresult put_address(uint64_t name)
{
	return cuMemFree_v2(name);
}

static CUresult put_async(uint64_t name)
{
	return cuMemFreeAsync(name, NULL);
}

static CUresult put_array(uint64_t name)
{
	return cuArrayDestroy((CUarray)(uintptr_t)name);
}

static CUresult put_mipmap(uint64_t name)
{
	return cuMipmappedArrayDestroy((CUmipmappedArray)(uintptr_t)name);
}

static CUresult put_handle(uint64_t name)
{
	return cuMemRelease(name);
}

static const struct kind {
	CUresult (*get)(uint64_t bytes, uint64_t *name);
	CUresult (*put)(uint64_t name);
	const char *call;
} kinds[] = {
	{get_block, put_address, "cuMemAlloc_v2"},
	{get_managed, put_address, "cuMemAllocManaged"},
	{get_pitched, put_address, "cuMemAllocPitch_v2"},
	{get_async, put_async, "cuMemAllocAsync"},
	{get_from_pool, put_async, "cuMemAllocFromPoolAsync"},
	{get_plane, put_array, "cuArrayCreate_v2"},
	{get_cube, put_array, "cuArray3DCreate_v2"},
	{get_mipmap, put_mipmap, "cuMipmappedArrayCreate"},
	{get_handle, put_handle, "cuMemCreate"},
	{get_in_a_capture, put_address, "cuMemAlloc_v2"},
};

enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static void must_see(size_t free_bytes, size_t total_bytes)
{
	size_t left = 1, total = 1;

	OK(cuMemGetInfo_v2(&left, &total));
	CM_MUST(left == free_bytes && total == total_bytes);
}

/* Each kind beside each other one: 40 MiB and 30 do not fit into 64, 24 do, exactly. */
CM_ROLE(kinds)
{
	struct cm_device_row row;
	uint64_t held, other;
	int i, j;

	cm_open(0);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	must_see(LIMIT, LIMIT);
	for (i = 0; i < KINDS; i++) {
		OK(kinds[i].get(40 * MIB, &held));
		must_see(24 * MIB, LIMIT);
		for (j = 0; j < KINDS; j++) {
			other = 77;
			CM_MUST(kinds[j].get(30 * MIB, &other) == CUDA_ERROR_OUT_OF_MEMORY);
			CM_MUST(other == 77);
			OK(kinds[j].get(24 * MIB, &other));
			must_see(0, LIMIT);
			OK(kinds[j].put(other));
			must_see(24 * MIB, LIMIT);
		}
		OK(kinds[i].put(held));
		must_see(LIMIT, LIMIT);
	}
	row = cm_own_counters(0);
	/* Blocks fail as PyTorch counts it, the others on their own account. */
	CM_MUST(row.scalar[CM_SCALAR_num_oom_rejections] == KINDS * KINDS);
	CM_MUST(row.scalar[CM_SCALAR_num_ooms] == KINDS);
	CM_MUST(row.scalar[CM_SCALAR_uncached_ooms] == KINDS * (KINDS - 1));
}

/* Nothing is counted of what the driver refuses, and a bad call is a bad call. */
CM_ROLE(refused)
{
	uint64_t name = 77;
	int i;

	cm_open(0);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	CM_MUST(cuMemAllocManaged((CUdeviceptr *)&name, MIB, 77) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuArrayCreate_v2((CUarray *)(void *)&name, NULL) == CUDA_ERROR_INVALID_VALUE);
	CM_MUST(cuMemCreate((CUmemGenericAllocationHandle *)&name, 1, &on_device_0, 0) ==
		CUDA_ERROR_INVALID_VALUE);
	for (i = 0; i < KINDS; i++) {
		CM_MUST(!cudasim_fail(kinds[i].call, 1, CUDA_ERROR_UNKNOWN));
		CM_MUST(kinds[i].get(8 * MIB, &name) == CUDA_ERROR_UNKNOWN);
		must_see(LIMIT, LIMIT);
	}
	CM_MUST(name == 77);
}

/* What the cache holds idle is the program's, whatever it asks for. */
CM_ROLE(idle)
{
	uint64_t name;
	int i;

	cm_open(0);
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	for (i = 1; i < KINDS - 1; i++) {
		OK(cuMemFree_v2(cm_get(50 * MIB)));
		CM_MUST(cm_reserved() == (int64_t)(50 * MIB));
		must_see(LIMIT, LIMIT);
		OK(kinds[i].get(30 * MIB, &name));
		CM_MUST(cm_reserved() == 0);
		OK(kinds[i].put(name));
	}
}

struct taker {
	pthread_t thread;
	CUcontext ctx;
	unsigned seed;
};

static void *take_and_free(void *arg)
{
	struct taker *taker = arg;
	const struct kind *kind;
	uint64_t name;
	unsigned i;

	OK(cuCtxSetCurrent(taker->ctx));
	for (i = 0; i < ROUNDS; i++) {
		/* But not in a capture, which would be the other threads' too. */
		kind = &kinds[(unsigned)rand_r(&taker->seed) % (KINDS - 1)];
		if (kind->get((1 + (unsigned)rand_r(&taker->seed) % 31) * 2 * MIB, &name))
			continue;
		OK(kind->put(name));
	}
	return NULL;
}

CM_ROLE(storm)
{
	struct taker taker[THREADS];
	CUcontext ctx = cm_open(0);
	unsigned i;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	/* The library has started: who comes meanwhile does not wait for that for long. */
	OK(cuMemFree_v2(cm_get(MIB)));
	for (i = 0; i < THREADS; i++) {
		taker[i] = (struct taker){.ctx = ctx, .seed = i + 1};
		CM_MUST(!pthread_create(&taker[i].thread, NULL, take_and_free, &taker[i]));
	}
	for (i = 0; i < THREADS; i++)
		CM_MUST(!pthread_join(taker[i].thread, NULL));
	must_see(LIMIT, LIMIT);
	CM_MUST(cudasim_peak_bytes(0) <= LIMIT);
}

#define LIMITED "memory_limit_mb:64,oom_report:off,exchange:off"

CM_PLAY(each_kind_counts_towards_the_limit, "kinds", LIMITED, "CUDASIM=memory:1G")
CM_PLAY(a_share_of_the_card_is_such_a_limit, "kinds",
	"per_process_memory_fraction:0.0625,oom_report:off,exchange:off", "CUDASIM=memory:1G")
CM_PLAY(each_kind_is_limited_where_nothing_is_cached, "kinds", LIMITED ",mode:stats",
	"CUDASIM=memory:1G")
CM_PLAY(what_is_refused_counts_for_nothing, "refused", LIMITED, "CUDASIM=memory:1G")
CM_PLAY(idle_memory_goes_back_before_a_request_fails, "idle", LIMITED, "CUDASIM=memory:1G")
CM_PLAY(threads_do_not_exceed_the_limit_together, "storm", LIMITED, "CUDASIM=memory:1G")
CM_PLAY(nor_with_pages, "storm", LIMITED ",expandable_segments:True", "CUDASIM=memory:1G")
