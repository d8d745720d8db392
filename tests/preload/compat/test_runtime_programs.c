/* SPDX-License-Identifier: MIT */
/*
 * Programs of the runtime API in small, after what public samples do with memory: each checks its
 * own results, and gets the same ones without the library and in each of its modes.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#undef __CUDA_API_VERSION_INTERNAL
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/preload/play.h"
#include "tests/unit/cmocka_all.h"

#define KIB UINT64_C(1024)
#define MIB UINT64_C(1048576)

#define OK(call)  CM_MUST((call) == cudaSuccess)
#define DRV(call) CM_MUST((call) == CUDA_SUCCESS)

/* Host memory of both kinds, seen from the device at its own address there. */
CM_ROLE(zero_copy)
{
	uint32_t *mapped, *registered, value = 0;
	void *on_device, *copy;
	int i;

	for (i = 0; i < 5; i++) {
		OK(cudaHostAlloc((void **)&mapped, 64 * KIB, cudaHostAllocMapped));
		registered = aligned_alloc(4096, 64 * KIB);
		CM_MUST(registered);
		OK(cudaHostRegister(registered, 64 * KIB, cudaHostRegisterMapped));
		OK(cudaMalloc(&copy, 64 * KIB));
		mapped[0] = 3;
		OK(cudaHostGetDevicePointer(&on_device, mapped, 0));
		OK(cudaMemcpy(copy, on_device, 64 * KIB, cudaMemcpyDeviceToDevice));
		OK(cudaHostGetDevicePointer(&on_device, registered, 0));
		OK(cudaMemcpy(on_device, copy, 64 * KIB, cudaMemcpyDeviceToDevice));
		CM_MUST(registered[0] == 3);
		OK(cudaMemcpy(&value, copy, 4, cudaMemcpyDeviceToHost));
		CM_MUST(value == 3);
		OK(cudaFree(copy));
		OK(cudaHostUnregister(registered));
		free(registered);
		OK(cudaFreeHost(mapped));
	}
}

/* Managed memory that host threads and the device use by turns, a stream each. */
static void *use_managed(void *arg)
{
	uint32_t *managed, round;
	cudaStream_t stream;
	void *scratch;

	(void)arg;
	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaMallocManaged((void **)&managed, 256 * KIB, cudaMemAttachGlobal));
	for (round = 0; round < 10; round++) {
		OK(cudaMalloc(&scratch, 256 * KIB));
		OK(cudaMemsetAsync(scratch, (int)round, 256 * KIB, stream));
		OK(cudaMemcpyAsync(managed, scratch, 256 * KIB, cudaMemcpyDeviceToDevice, stream));
		OK(cudaStreamSynchronize(stream));
		CM_MUST(managed[100] == 0x01010101 * round);
		OK(cudaFree(scratch));
	}
	OK(cudaFree(managed));
	OK(cudaStreamDestroy(stream));
	return NULL;
}

CM_ROLE(managed)
{
	pthread_t thread[4];
	int i;

	OK(cudaFree(NULL));
	for (i = 0; i < 4; i++)
		CM_MUST(!pthread_create(&thread[i], NULL, use_managed, NULL));
	for (i = 0; i < 4; i++)
		CM_MUST(!pthread_join(thread[i], NULL));
}

/* Rows at a pitch, and an array of the same shape. */
CM_ROLE(pitch)
{
	const struct cudaChannelFormatDesc words = {32, 0, 0, 0, cudaChannelFormatKindUnsigned};
	uint32_t host[64][100], back[64][100];
	cudaArray_t array;
	void *rows, *plain;
	size_t pitch;
	int i;

	for (i = 0; i < 6400; i++)
		host[i / 100][i % 100] = (uint32_t)i;
	for (i = 0; i < 10; i++) {
		OK(cudaMallocPitch(&rows, &pitch, 400, 64));
		OK(cudaMallocArray(&array, &words, 100, 64, cudaArrayDefault));
		OK(cudaMalloc(&plain, 64 * 400));
		CM_MUST(pitch % 32 == 0);
		OK(cudaMemcpy2D(rows, pitch, host, 400, 400, 64, cudaMemcpyHostToDevice));
		OK(cudaMemcpy2DToArray(array, 0, 0, rows, pitch, 400, 64,
				       cudaMemcpyDeviceToDevice));
		OK(cudaMemcpy2DFromArray(plain, 400, array, 0, 0, 400, 64,
					 cudaMemcpyDeviceToDevice));
		memset(back, 0, sizeof(back));
		OK(cudaMemcpy(back, plain, sizeof(back), cudaMemcpyDeviceToHost));
		CM_MUST(!memcmp(host, back, sizeof(host)));
		OK(cudaFree(rows));
		OK(cudaFreeArray(array));
		OK(cudaFree(plain));
	}
}

/* Stream-ordered memory, kept by a pool across synchronisations, beside plain memory. */
CM_ROLE(stream_ordered)
{
	uint64_t keep = UINT64_MAX;
	void *ordered, *plain;
	cudaMemPool_t pool;
	cudaStream_t stream;
	uint32_t word = 0;
	int i;

	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaDeviceGetDefaultMemPool(&pool, 0));
	OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
	for (i = 0; i < 10; i++) {
		OK(cudaMalloc(&plain, 3 * MIB));
		OK(cudaMallocAsync(&ordered, 3 * MIB, stream));
		OK(cudaMemsetAsync(ordered, i, 3 * MIB, stream));
		OK(cudaMemcpyAsync(plain, ordered, 3 * MIB, cudaMemcpyDeviceToDevice, stream));
		OK(cudaFreeAsync(ordered, stream));
		/* Each may go the other way too. */
		OK(cudaMallocAsync(&ordered, MIB, stream));
		OK(cudaStreamSynchronize(stream));
		OK(cudaFree(ordered));
		OK(cudaMemcpy(&word, (char *)plain + 3 * MIB - 4, 4, cudaMemcpyDeviceToHost));
		CM_MUST(word == 0x01010101u * (uint32_t)i);
		OK(cudaFreeAsync(plain, stream));
	}
	OK(cudaMemPoolTrimTo(pool, 0));
}

/* A captured step, launched over and over while the program takes and gives other memory back. */
CM_ROLE(graph)
{
	void *state, *scratch, *other;
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	uint32_t word = 0;
	int i;

	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaMalloc(&state, MIB));
	OK(cudaMalloc(&scratch, MIB));
	OK(cudaMemset(scratch, 5, MIB));
	OK(cudaDeviceSynchronize());
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	OK(cudaMemcpyAsync(state, scratch, MIB, cudaMemcpyDeviceToDevice, stream));
	OK(cudaMemsetAsync(scratch, 7, MIB, stream));
	OK(cudaStreamEndCapture(stream, &graph));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	for (i = 0; i < 10; i++) {
		OK(cudaMalloc(&other, MIB));
		OK(cudaMemsetAsync(other, 9, MIB, stream));
		OK(cudaGraphLaunch(exec, stream));
		OK(cudaFree(other));
	}
	OK(cudaStreamSynchronize(stream));
	OK(cudaMemcpy(&word, state, 4, cudaMemcpyDeviceToHost));
	CM_MUST(word == 0x07070707);
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(graph));
	OK(cudaFree(state));
	OK(cudaFree(scratch));
}

/* Memory that a graph takes and gives back in each launch, by capture. */
CM_ROLE(graph_memory)
{
	cudaGraphExec_t exec;
	cudaStream_t stream;
	cudaGraph_t graph;
	void *inside, *result;
	uint32_t word = 0;
	int i;

	OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	OK(cudaMalloc(&result, MIB));
	OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
	OK(cudaMallocAsync(&inside, 4 * MIB, stream));
	OK(cudaMemsetAsync(inside, 6, 4 * MIB, stream));
	OK(cudaMemcpyAsync(result, inside, MIB, cudaMemcpyDeviceToDevice, stream));
	OK(cudaFreeAsync(inside, stream));
	OK(cudaStreamEndCapture(stream, &graph));
	OK(cudaGraphInstantiate(&exec, graph, 0));
	for (i = 0; i < 5; i++) {
		OK(cudaMemset(result, 0, MIB));
		OK(cudaDeviceSynchronize());
		OK(cudaGraphLaunch(exec, stream));
		OK(cudaStreamSynchronize(stream));
		OK(cudaMemcpy(&word, result, 4, cudaMemcpyDeviceToHost));
		CM_MUST(word == 0x06060606);
	}
	OK(cudaGraphExecDestroy(exec));
	OK(cudaGraphDestroy(graph));
	OK(cudaFree(result));
}

/* One program, both interfaces: what one gives the other takes. */
CM_ROLE(mixed)
{
	static const char text[] = "cudasim-module\n"
				   "kernel fill\n params ptr u32 u64\n writes p0 p2*4\n"
				   " do fill p0 p1 p2\nend\n";
	CUfunction function;
	CUdeviceptr raw;
	CUmodule module;
	uint64_t n = MIB / 4;
	uint32_t one = 1, word = 0;
	void *block, *params[] = {&block, &one, &n};
	int i;

	OK(cudaFree(NULL));
	DRV(cuModuleLoadData(&module, text));
	DRV(cuModuleGetFunction(&function, module, "fill"));
	for (i = 0; i < 10; i++) {
		OK(cudaMalloc(&block, MIB));
		DRV(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
		OK(cudaMemcpy(&word, (char *)block + MIB - 4, 4, cudaMemcpyDeviceToHost));
		CM_MUST(word == 1);
		DRV(cuMemFree_v2((CUdeviceptr)(uintptr_t)block));
		DRV(cuMemAlloc_v2(&raw, MIB));
		OK(cudaMemset((void *)(uintptr_t)raw, 2, MIB));
		OK(cudaFree((void *)(uintptr_t)raw));
	}
}

/* OpenMP's runtime looks for ompt_start_tool by RTLD_NEXT at its start: who answers for itself is
 * asked for ever. */
CM_ROLE(openmp)
{
	int failures = 0;

	OK(cudaFree(NULL));
#pragma omp parallel for reduction(+ : failures)
	for (int i = 0; i < 16; i++) {
		uint32_t word = 0;
		void *block;

		failures += cudaSetDevice(i % 2) != cudaSuccess;
		failures += cudaMalloc(&block, MIB) != cudaSuccess;
		failures += cudaMemset(block, i, MIB) != cudaSuccess;
		failures += cudaMemcpy(&word, block, 4, cudaMemcpyDeviceToHost) != cudaSuccess;
		failures += word != 0x01010101u * (uint32_t)i;
		failures += cudaFree(block) != cudaSuccess;
	}
	CM_MUST(!failures);
}

CM_PLAY_EVERYWHERE(host_memory_is_seen_from_the_device, "zero_copy", NULL)
CM_PLAY_EVERYWHERE(threads_use_managed_memory_by_turns, "managed", NULL)
CM_PLAY_EVERYWHERE(rows_and_arrays_keep_their_shape, "pitch", NULL)
CM_PLAY_EVERYWHERE(stream_ordered_memory_works_beside, "stream_ordered", NULL)
CM_PLAY_EVERYWHERE(a_captured_step_gives_the_same_result, "graph", NULL)
CM_PLAY_EVERYWHERE(memory_inside_a_graph_works, "graph_memory", NULL)
CM_PLAY_EVERYWHERE(runtime_and_driver_take_each_others_memory, "mixed", NULL)
CM_PLAY_EVERYWHERE(an_openmp_program_runs, "openmp", "CUDASIM=devices:2")
