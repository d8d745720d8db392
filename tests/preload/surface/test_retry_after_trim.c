/* SPDX-License-Identifier: MIT */
/*
 * What the cache holds is the program's: whoever else needs memory of the device gets it, and hears
 * of a shortage only where there is one.
 */
#include <stdio.h>
#include <unistd.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static CUgraph graph;
static CUgraphExec executable;
static CUfunction function;
static CUmodule module;
static CUlibrary library;
static CUkernel kernel;

static const CUmemAllocationProp on_device_0 = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static const char image[] = "cudasim-module\nkernel nothing\nend\nglobal word 4\n";

static CUresult get_managed(void)
{
	CUdeviceptr addr;

	return cuMemAllocManaged(&addr, MIB, CU_MEM_ATTACH_GLOBAL);
}

static CUresult get_pitched(void)
{
	CUdeviceptr addr;
	size_t pitch;

	return cuMemAllocPitch_v2(&addr, &pitch, 512, 4, 4);
}

static CUresult get_plane(void)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
	CUarray array;

	return cuArrayCreate_v2(&array, &shape);
}

static const CUDA_ARRAY3D_DESCRIPTOR cube = {
	.Width = 8, .Height = 8, .Depth = 8, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};

static CUresult get_array(void)
{
	CUarray array;

	return cuArray3DCreate_v2(&array, &cube);
}

static CUresult get_mipmap(void)
{
	CUmipmappedArray array;

	return cuMipmappedArrayCreate(&array, &cube, 2);
}

static CUresult get_async(void)
{
	CUdeviceptr addr;

	return cuMemAllocAsync(&addr, MIB, NULL);
}

static CUresult get_async_per_thread(void)
{
	CUdeviceptr addr;

	return cuMemAllocAsync_ptsz(&addr, MIB, NULL);
}

static CUresult get_from_pool(void)
{
	CUdeviceptr addr;
	CUmemoryPool pool;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	return cuMemAllocFromPoolAsync(&addr, MIB, pool, NULL);
}

static CUresult get_from_pool_per_thread(void)
{
	CUdeviceptr addr;
	CUmemoryPool pool;

	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	return cuMemAllocFromPoolAsync_ptsz(&addr, MIB, pool, NULL);
}

static CUresult create_memory(void)
{
	CUmemGenericAllocationHandle handle;

	return cuMemCreate(&handle, 2 * MIB, &on_device_0, 0);
}

/* On a thread without a context, as some libraries do. */
static CUresult create_memory_elsewhere(void)
{
	CUcontext ctx;
	CUresult res;

	OK(cuCtxGetCurrent(&ctx));
	OK(cuCtxSetCurrent(NULL));
	res = create_memory();
	OK(cuCtxSetCurrent(ctx));
	return res;
}

static CUresult map_memory(void)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;

	OK(cuMemCreate(&handle, 2 * MIB, &on_device_0, 0));
	OK(cuMemAddressReserve(&range, 2 * MIB, 0, 0, 0));
	return cuMemMap(range, 2 * MIB, 0, handle, 0);
}

static CUresult load_data(void)
{
	CUmodule loaded;

	return cuModuleLoadData(&loaded, image);
}

static CUresult load_data_with_options(void)
{
	CUmodule loaded;

	return cuModuleLoadDataEx(&loaded, image, 0, NULL, NULL);
}

static CUresult load_file(void)
{
	char path[64];
	CUmodule loaded;
	CUresult res;
	FILE *file;

	(void)snprintf(path, sizeof(path), "surface_retry_after_trim.%d", (int)getpid());
	file = fopen(path, "w");
	CM_MUST(file && fputs(image, file) >= 0 && !fclose(file));
	res = cuModuleLoad(&loaded, path);
	CM_MUST(!unlink(path));
	return res;
}

static CUresult load_fat_binary(void)
{
	CUmodule loaded;

	return cuModuleLoadFatBinary(&loaded, image);
}

static CUresult load_library(void)
{
	CUlibrary loaded;

	return cuLibraryLoadData(&loaded, image, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult get_function(void)
{
	CUfunction found;

	return cuModuleGetFunction(&found, module, "nothing");
}

static CUresult get_variable(void)
{
	CUdeviceptr addr;
	size_t bytes;

	return cuModuleGetGlobal_v2(&addr, &bytes, module, "word");
}

static CUresult get_module(void)
{
	CUmodule found;

	return cuLibraryGetModule(&found, library);
}

static CUresult get_variable_of_library(void)
{
	CUdeviceptr addr;
	size_t bytes;

	return cuLibraryGetGlobal(&addr, &bytes, library, "word");
}

static CUresult get_function_of_kernel(void)
{
	CUfunction found;

	return cuKernelGetFunction(&found, kernel);
}

static CUresult get_attribute(void)
{
	int value;

	return cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, function);
}

static CUresult set_attribute(void)
{
	return cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024);
}

static CUresult get_occupancy(void)
{
	int blocks;

	return cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 32, 0);
}

static CUresult get_occupancy_with_flags(void)
{
	int blocks;

	return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, function, 32, 0, 0);
}

static CUresult create_stream(void)
{
	CUstream stream;

	return cuStreamCreate(&stream, 0);
}

static CUresult create_stream_with_priority(void)
{
	CUstream stream;

	return cuStreamCreateWithPriority(&stream, 0, 0);
}

static CUresult create_event(void)
{
	CUevent event;

	return cuEventCreate(&event, 0);
}

static CUresult create_pool(void)
{
	const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemoryPool pool;

	return cuMemPoolCreate(&pool, &props);
}

static CUresult upload(void)
{
	return cuGraphUpload(executable, NULL);
}

static CUresult upload_per_thread(void)
{
	return cuGraphUpload_ptsz(executable, NULL);
}

static CUresult instantiate(void)
{
	CUgraphExec exec;

	return cuGraphInstantiateWithFlags(&exec, graph, 0);
}

static CUresult instantiate_as_of_old(void)
{
	CUgraphExec exec;

	return cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0);
}

static CUresult instantiate_with_params(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUgraphExec exec;

	return cuGraphInstantiateWithParams(&exec, graph, &params);
}

static CUresult instantiate_per_thread(void)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS params = {0};
	CUgraphExec exec;

	return cuGraphInstantiateWithParams_ptsz(&exec, graph, &params);
}

static CUresult set_limit(void)
{
	return cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 8 * MIB);
}

static CUresult launch(void)
{
	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

/* A new context is current; its memory is not what the cache of the old one has to give. */
static CUresult and_back(CUresult res)
{
	CUcontext ctx;

	if (res == CUDA_SUCCESS)
		OK(cuCtxPopCurrent_v2(&ctx));
	return res;
}

static CUresult create_context(void)
{
	CUcontext ctx;

	return and_back(cuCtxCreate_v2(&ctx, 0, 0));
}

static CUresult create_context_4(void)
{
	CUcontext ctx;

	return and_back(cuCtxCreate_v4(&ctx, NULL, 0, 0));
}

static CUresult retain_primary(void)
{
	CUcontext ctx;

	return cuDevicePrimaryCtxRetain(&ctx, 0);
}

static const struct {
	const char *name;
	CUresult (*call)(void);
} needy[] = {
	{"cuMemAllocManaged", get_managed},
	{"cuMemAllocPitch_v2", get_pitched},
	{"cuArrayCreate_v2", get_plane},
	{"cuArray3DCreate_v2", get_array},
	{"cuMipmappedArrayCreate", get_mipmap},
	{"cuMemAllocAsync", get_async},
	{"cuMemAllocAsync_ptsz", get_async_per_thread},
	{"cuMemAllocFromPoolAsync", get_from_pool},
	{"cuMemAllocFromPoolAsync_ptsz", get_from_pool_per_thread},
	{"cuMemCreate", create_memory},
	{"cuMemCreate", create_memory_elsewhere},
	{"cuMemMap", map_memory},
	{"cuModuleLoadData", load_data},
	{"cuModuleLoadDataEx", load_data_with_options},
	{"cuModuleLoad", load_file},
	{"cuModuleLoadFatBinary", load_fat_binary},
	{"cuLibraryLoadData", load_library},
	{"cuModuleGetFunction", get_function},
	{"cuModuleGetGlobal_v2", get_variable},
	{"cuLibraryGetModule", get_module},
	{"cuLibraryGetGlobal", get_variable_of_library},
	{"cuKernelGetFunction", get_function_of_kernel},
	{"cuFuncGetAttribute", get_attribute},
	{"cuFuncSetAttribute", set_attribute},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessor", get_occupancy},
	{"cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", get_occupancy_with_flags},
	{"cuStreamCreate", create_stream},
	{"cuStreamCreateWithPriority", create_stream_with_priority},
	{"cuEventCreate", create_event},
	{"cuMemPoolCreate", create_pool},
	{"cuGraphUpload", upload},
	{"cuGraphUpload_ptsz", upload_per_thread},
	{"cuGraphInstantiate_v2", instantiate_as_of_old},
	{"cuGraphInstantiateWithFlags", instantiate},
	{"cuGraphInstantiateWithParams", instantiate_with_params},
	{"cuGraphInstantiateWithParams_ptsz", instantiate_per_thread},
	{"cuCtxSetLimit", set_limit},
	{"cuLaunchKernel", launch},
	{"cuCtxCreate_v2", create_context},
	{"cuCtxCreate_v4", create_context_4},
	{"cuDevicePrimaryCtxRetain", retain_primary},
};

#define NEEDY (sizeof(needy) / sizeof(needy[0]))

static void open_all(void)
{
	cm_open(0);
	OK(cuModuleLoadData(&module, image));
	OK(cuModuleGetFunction(&function, module, "nothing"));
	OK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "nothing"));
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
}

static void must(bool condition, const char *name)
{
	if (!condition)
		cm_rerun_fail(__FILE__, __LINE__, name);
}

/* The first answer is out of memory: the cache is given back and the call made again. */
CM_ROLE(needy)
{
	uint64_t before;
	size_t i;

	open_all();
	for (i = 0; i < NEEDY; i++) {
		OK(cuMemFree_v2(cm_get(40 * MIB)));
		must(cm_reserved() == (int64_t)(40 * MIB), needy[i].name);
		before = cudasim_calls(needy[i].name);
		cudasim_clear_failures();
		must(!cudasim_fail(needy[i].name, 1, CUDA_ERROR_OUT_OF_MEMORY), needy[i].name);
		must(needy[i].call() == CUDA_SUCCESS, needy[i].name);
		must(cudasim_calls(needy[i].name) == before + 2, needy[i].name);
		must(cm_reserved() == 0, needy[i].name);
		OK(cuCtxSynchronize()); /* nothing but a wait lets virtual time pass */
	}
}

/* Nothing is cached: once is enough. */
CM_ROLE(nothing_to_give)
{
	CUdeviceptr block;
	uint64_t before;
	size_t i;

	open_all();
	block = cm_get(40 * MIB);
	for (i = 0; i < NEEDY; i++) {
		before = cudasim_calls(needy[i].name);
		cudasim_clear_failures();
		must(!cudasim_fail(needy[i].name, 1, CUDA_ERROR_OUT_OF_MEMORY), needy[i].name);
		must(needy[i].call() == CUDA_ERROR_OUT_OF_MEMORY, needy[i].name);
		must(cudasim_calls(needy[i].name) == before + 1, needy[i].name);
	}
	OK(cuMemFree_v2(block));
}

/* Other errors are none of our business, whatever the cache holds. */
CM_ROLE(other_error)
{
	size_t i;

	open_all();
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	for (i = 0; i < NEEDY; i++) {
		cudasim_clear_failures();
		must(!cudasim_fail(needy[i].name, 1, CUDA_ERROR_INVALID_VALUE), needy[i].name);
		must(needy[i].call() == CUDA_ERROR_INVALID_VALUE, needy[i].name);
	}
	CM_MUST(cm_reserved() == (int64_t)(40 * MIB));
}

/* A card that is really full of what nobody uses: 64 MiB, of which the cache holds 40. */
CM_ROLE(full_card)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr addr;

	cm_open(0);
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuMemAllocAsync(&addr, 50 * MIB, NULL));
	OK(cuMemFree_v2(addr));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuMemCreate(&handle, 50 * MIB, &on_device_0, 0));
	OK(cuMemRelease(handle));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	addr = cm_get(60 * MIB);
	CM_MUST(cuMemAllocAsync(&addr, 50 * MIB, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
}

/* The device that is full is that of the pool, or of the stream; another one's context is
 * current. */
CM_ROLE(full_card_of_another_context)
{
	CUstream stream;
	CUmemoryPool pool;
	CUcontext ctx;
	CUdeviceptr addr;

	cm_open(0);
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuDeviceGetDefaultMemPool(&pool, 0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 1));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuCtxPushCurrent_v2(ctx));
	(void)cm_get(MIB);
	OK(cuMemAllocAsync(&addr, 50 * MIB, stream));
	OK(cuMemFree_v2(addr));
	OK(cuCtxPopCurrent_v2(&ctx));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuMemAllocFromPoolAsync(&addr, 50 * MIB, pool, NULL));
	OK(cuMemFree_v2(addr));
}

static void cache_in(CUcontext ctx)
{
	OK(cuCtxPushCurrent_v2(ctx));
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuCtxPopCurrent_v2(&ctx));
	CM_MUST(cm_reserved() == (int64_t)(40 * MIB));
}

/* Work takes memory of the device of its stream, and what prepares kernels of that of the kernels:
 * the first one. Another one's context is current. */
CM_ROLE(work_of_another_context)
{
	CUcontext first, second;
	CUstream stream;

	open_all();
	OK(cuCtxGetCurrent(&first));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
	OK(cuStreamEndCapture(stream, &graph));
	cache_in(first);
	OK(cuDevicePrimaryCtxRetain(&second, 1));
	OK(cuCtxPushCurrent_v2(second));
	(void)cm_get(MIB);
	CM_MUST(!cudasim_fail("cuGraphUpload", 1, CUDA_ERROR_OUT_OF_MEMORY));
	OK(cuGraphUpload(executable, stream));
	CM_MUST(cm_reserved() == 0);
	cache_in(first);
	CM_MUST(!cudasim_fail("cuGraphLaunch", 1, CUDA_ERROR_OUT_OF_MEMORY));
	OK(cuGraphLaunch(executable, stream));
	CM_MUST(cm_reserved() == 0);
	cache_in(first);
	CM_MUST(!cudasim_fail("cuFuncGetAttribute", 1, CUDA_ERROR_OUT_OF_MEMORY));
	OK(get_attribute());
	CM_MUST(cm_reserved() == 0);
	cache_in(first);
	CM_MUST(!cudasim_fail("cuGraphInstantiateWithFlags", 1, CUDA_ERROR_OUT_OF_MEMORY));
	OK(instantiate());
	CM_MUST(cm_reserved() == 0);
}

/* What is free to the program is what it could get; a NULL for either is allowed. */
CM_ROLE(memory_info)
{
	size_t free_bytes, total, only;

	cm_open(0);
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(free_bytes == 64 * MIB && total == 64 * MIB);
	(void)cm_get(8 * MIB);
	OK(cuMemFree_v2(cm_get(40 * MIB)));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(free_bytes <= 56 * MIB && free_bytes >= 40 * MIB && total == 64 * MIB);
	(void)cm_get(free_bytes);
	OK(cuMemGetInfo_v2(NULL, &only));
	CM_MUST(only == total);
	OK(cuMemGetInfo_v2(&only, NULL));
	CM_MUST(only < 24 * MIB);
	CM_MUST(cuMemGetInfo_v2(NULL, NULL) == CUDA_SUCCESS);
}

#define CARD "CUDASIM=memory:64M,context:0"

CM_PLAY(who_fails_for_memory_gets_what_is_cached, "needy", "", NULL)
CM_PLAY(who_fails_with_nothing_cached_hears_it_at_once, "nothing_to_give", "oom_report:off", NULL)
CM_PLAY(another_error_costs_no_cache, "other_error", "", NULL)
CM_PLAY_EVERYWHERE(a_full_card_serves_whoever_asks, "full_card", CARD)
CM_PLAY_EVERYWHERE(a_full_card_serves_other_contexts, "full_card_of_another_context",
		   CARD ",devices:2")
CM_PLAY(work_gets_what_is_cached_on_its_device, "work_of_another_context", "", "CUDASIM=devices:2")
/* The last blocks leave no room for a whole segment. */
CM_ROLE(memory_info_of_full_card)
{
	CUdeviceptr block[64];
	size_t free_bytes, total;
	int n = 0;

	cm_open(0);
	while (cuMemAlloc_v2(&block[n], 1300000) == CUDA_SUCCESS)
		CM_MUST(++n < 64);
	while (n)
		OK(cuMemFree_v2(block[--n]));
	OK(cuMemGetInfo_v2(&free_bytes, &total));
	CM_MUST(free_bytes == total);
}

CM_PLAY_EVERYWHERE(memory_info_is_what_the_program_can_get, "memory_info", CARD)
CM_PLAY_EVERYWHERE(memory_info_is_whole_after_the_card_was_full, "memory_info_of_full_card", CARD)
