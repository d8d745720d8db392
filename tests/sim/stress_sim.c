/* SPDX-License-Identifier: MIT */
/*
 * Threads that do everything at once to one simulated driver: nothing may crash, race (under a
 * sanitizer) or hang, and at the end nothing is left. Random, with a seed that is printed.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/sim/cudasim.h"

enum { THREADS = 4, STEPS = 3000, SLOTS = 8 };

static const char KERNELS[] = "cudasim-module\nkernel work\n params ptr u64\n time 3us\n"
			      " writes p0 p1\nend\n";

struct worker {
	pthread_t thread;
	unsigned seed;
	CUdeviceptr memory[SLOTS];
	void *pinned[SLOTS];
	CUstream streams[2];
	CUevent event;
	CUfunction kernel;
	CUcontext ctx;
	CUresult result; /* of the first call that failed and must not have */
	int line;
};

#define MUST(call)                                                  \
	do {                                                        \
		CUresult must_result = (call);                      \
                                                                    \
		if (must_result != CUDA_SUCCESS && !worker->line) { \
			worker->result = must_result;               \
			worker->line = __LINE__;                    \
		}                                                   \
	} while (0)

static void CUDA_CB count_call(void *calls)
{
	__atomic_add_fetch((int *)calls, 1, __ATOMIC_RELAXED);
}

static int host_calls;

static void launch(struct worker *worker, CUdeviceptr addr, CUstream stream)
{
	uint64_t bytes = 4096;
	void *params[] = {&addr, &bytes};

	MUST(cuLaunchKernel(worker->kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void change_memory(struct worker *worker, unsigned slot)
{
	if (worker->memory[slot]) {
		launch(worker, worker->memory[slot], worker->streams[slot % 2]);
		MUST(cuMemFree(worker->memory[slot]));
		worker->memory[slot] = 0;
	} else {
		MUST(cuMemAlloc(&worker->memory[slot], 4096u << slot));
	}
}

static void change_pinned(struct worker *worker, unsigned slot)
{
	if (worker->pinned[slot]) {
		MUST(cuMemFreeHost(worker->pinned[slot]));
		worker->pinned[slot] = NULL;
	} else {
		MUST(cuMemHostAlloc(&worker->pinned[slot], 4096u << slot, 0));
	}
}

static void pass_through_pool(struct worker *worker, CUstream stream)
{
	CUdeviceptr addr;

	MUST(cuMemAllocAsync(&addr, 10000, stream));
	launch(worker, addr, stream);
	MUST(cuMemFreeAsync(addr, stream));
}

static void make_and_drop_context(struct worker *worker)
{
	CUdeviceptr addr;
	CUcontext ctx;

	MUST(cuCtxCreate(&ctx, NULL, 0, 0));
	MUST(cuMemAlloc(&addr, 4096));
	MUST(cuMemsetD8(addr, 1, 4096));
	MUST(cuCtxDestroy(ctx));
}

static void capture(struct worker *worker)
{
	CUgraph graph;
	CUgraphExec exec;

	if (!worker->memory[0])
		return;
	MUST(cuStreamBeginCapture(worker->streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
	launch(worker, worker->memory[0], worker->streams[0]);
	MUST(cuStreamEndCapture(worker->streams[0], &graph));
	MUST(cuGraphInstantiate(&exec, graph, 0));
	MUST(cuGraphLaunch(exec, worker->streams[0]));
	MUST(cuGraphExecDestroy(exec));
	MUST(cuGraphDestroy(graph));
}

static void step(struct worker *worker)
{
	unsigned dice = (unsigned)rand_r(&worker->seed);
	CUstream stream = worker->streams[dice & 1];

	switch (dice >> 1 & 15) {
	case 0:
		change_pinned(worker, dice >> 8 & (SLOTS - 1));
		break;
	case 1:
		pass_through_pool(worker, stream);
		break;
	case 2:
		make_and_drop_context(worker);
		break;
	case 3:
		capture(worker);
		break;
	case 4:
		MUST(cuStreamSynchronize(stream));
		break;
	case 5:
		MUST(cuLaunchHostFunc(stream, count_call, &host_calls));
		break;
	case 6:
		MUST(cuEventRecord(worker->event, stream));
		MUST(cuStreamWaitEvent(worker->streams[0], worker->event, 0));
		break;
	case 7:
		MUST(cuCtxRecordEvent(worker->ctx, worker->event));
		MUST(cuCtxWaitEvent(worker->ctx, worker->event));
		break;
	default:
		change_memory(worker, dice >> 8 & (SLOTS - 1));
		break;
	}
}

static void *work(void *data)
{
	struct worker *worker = data;
	CUmodule module;

	MUST(cuCtxCreate(&worker->ctx, NULL, 0, 0));
	MUST(cuStreamCreate(&worker->streams[0], CU_STREAM_NON_BLOCKING));
	MUST(cuStreamCreate(&worker->streams[1], CU_STREAM_DEFAULT));
	MUST(cuEventCreate(&worker->event, CU_EVENT_DISABLE_TIMING));
	MUST(cuModuleLoadData(&module, KERNELS));
	MUST(cuModuleGetFunction(&worker->kernel, module, "work"));
	for (unsigned i = 0; i < STEPS && !worker->line; i++)
		step(worker);
	MUST(cuCtxSynchronize());
	MUST(cuCtxDestroy(worker->ctx));
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned seed = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : (unsigned)time(NULL);
	struct worker workers[THREADS] = {{.seed = 0}};
	int failed = 0;

	setenv("CUDASIM", "memory:1G", 1);
	printf("seed %u\n", seed);
	if (cuInit(0))
		return 1;
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].seed = seed + i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		if (workers[i].line)
			printf("thread %u: line %d: error %d\n", i, workers[i].line,
			       (int)workers[i].result);
		failed += workers[i].line != 0;
	}
	printf("%llu calls, %llu bytes left\n", (unsigned long long)cudasim_calls(NULL),
	       (unsigned long long)cudasim_used_bytes(0));
	return failed || cudasim_used_bytes(0);
}
