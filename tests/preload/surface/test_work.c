/* SPDX-License-Identifier: MIT */
/*
 * Every function that submits work which may run without bound has a hook: it is watched, and
 * passes with all of its arguments. Host functions may not call CUDA, and hear so.
 */
#include <stdatomic.h>
#include <string.h>

#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

static const char text[] =
	"cudasim-module\n"
	"kernel fill\n params ptr u32 u64\n writes p0 p2*4\n do fill p0 p1 p2\nend\n";

static CUfunction fill;
static CUdeviceptr block;

static void must_be(uint32_t wanted)
{
	uint32_t word = 0;

	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(&word, block, 4));
	CM_MUST(word == wanted);
}

static void open_all(void)
{
	cm_open(0);
	fill = cm_load(text, "fill");
	block = cm_get(MIB);
}

CM_ROLE(kernels)
{
	CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
	uint64_t words = MIB / 4;
	uint32_t value;
	void *params[] = {&block, &value, &words};

	open_all();
	value = 1;
	OK(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	must_be(1);
	value = 2;
	OK(cuLaunchKernel_ptsz(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
	must_be(2);
	value = 3;
	OK(cuLaunchKernelEx(&config, fill, params, NULL));
	must_be(3);
	value = 4;
	OK(cuLaunchKernelEx_ptsz(&config, fill, params, NULL));
	must_be(4);
	value = 5;
	OK(cuLaunchCooperativeKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	must_be(5);
	value = 6;
	OK(cuLaunchCooperativeKernel_ptsz(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params));
	must_be(6);
	CM_MUST(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) != CUDA_SUCCESS);
}

CM_ROLE(graphs)
{
	CUgraphExec exec;
	CUstream stream;
	CUgraph graph;

	open_all();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD32Async(block, 7, MIB / 4, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	OK(cuGraphLaunch(exec, stream));
	must_be(7);
	OK(cuMemsetD8_v2(block, 0, MIB));
	OK(cuGraphLaunch_ptsz(exec, stream));
	must_be(7);
}

static atomic_int calls;

static void host_function(void *data)
{
	atomic_fetch_add(&calls, *(int *)data);
}

static void callback(CUstream stream, CUresult status, void *data)
{
	(void)stream;
	CM_MUST(status == CUDA_SUCCESS);
	atomic_fetch_add(&calls, *(int *)data);
}

CM_ROLE(host_functions)
{
	int add = 3;

	open_all();
	OK(cuLaunchHostFunc(NULL, host_function, &add));
	OK(cuLaunchHostFunc_ptsz(NULL, host_function, &add));
	OK(cuLaunchHostFunc_v2(NULL, host_function, &add, 1));
	OK(cuLaunchHostFunc_v2_ptsz(NULL, host_function, &add, 0));
	OK(cuStreamAddCallback(NULL, callback, &add, 0));
	OK(cuStreamAddCallback_ptsz(CU_STREAM_PER_THREAD, callback, &add, 0));
	OK(cuCtxSynchronize());
	CM_MUST(atomic_load(&calls) == 18);
}

static CUdeviceptr kept;
static CUresult answers[3];

static void call_cuda(void *data)
{
	CUdeviceptr addr;
	void *ptr;

	(void)data;
	answers[0] = cuMemAlloc_v2(&addr, MIB);
	answers[1] = cuMemFree_v2(kept);
	answers[2] = cuMemHostAlloc(&ptr, MIB, 0);
}

/* Natively refused, and so it is where the cache could have served it. */
CM_ROLE(calls_from_a_host_function)
{
	size_t i;

	open_all();
	OK(cuMemFree_v2(cm_get(MIB)));
	kept = cm_get(MIB);
	OK(cuLaunchHostFunc(NULL, call_cuda, NULL));
	OK(cuCtxSynchronize());
	for (i = 0; i < 3; i++)
		CM_MUST(answers[i] == CUDA_ERROR_NOT_PERMITTED);
	OK(cuMemsetD8_v2(kept, 1, MIB));
	OK(cuMemFree_v2(kept));
}

typedef CUresult wait_fn(CUstream stream, CUdeviceptr addr);

#define WAIT(name, type)                                                      \
	static CUresult wait_by_##name(CUstream stream, CUdeviceptr addr)     \
	{                                                                     \
		return name(stream, addr, (type)1, CU_STREAM_WAIT_VALUE_GEQ); \
	}
WAIT(cuStreamWaitValue32, cuuint32_t)
WAIT(cuStreamWaitValue32_ptsz, cuuint32_t)
WAIT(cuStreamWaitValue32_v2, cuuint32_t)
WAIT(cuStreamWaitValue32_v2_ptsz, cuuint32_t)
WAIT(cuStreamWaitValue64, cuuint64_t)
WAIT(cuStreamWaitValue64_ptsz, cuuint64_t)
WAIT(cuStreamWaitValue64_v2, cuuint64_t)
WAIT(cuStreamWaitValue64_v2_ptsz, cuuint64_t)

static CUstreamBatchMemOpParams wait_for(CUdeviceptr addr)
{
	CUstreamBatchMemOpParams op;

	memset(&op, 0, sizeof(op));
	op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	op.waitValue.address = addr;
	op.waitValue.value = 1;
	op.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
	return op;
}

static CUresult wait_by_batch(CUstream stream, CUdeviceptr addr)
{
	CUstreamBatchMemOpParams op = wait_for(addr);

	return cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

static CUresult wait_by_batch_ptsz(CUstream stream, CUdeviceptr addr)
{
	CUstreamBatchMemOpParams op = wait_for(addr);

	return cuStreamBatchMemOp_v2_ptsz(stream, 1, &op, 0);
}

/* A stream waits until another one writes the value: what it was told is what it waits for. */
CM_ROLE(waits)
{
	static wait_fn *const waits[] = {
		wait_by_cuStreamWaitValue32,
		wait_by_cuStreamWaitValue32_ptsz,
		wait_by_cuStreamWaitValue32_v2,
		wait_by_cuStreamWaitValue32_v2_ptsz,
		wait_by_cuStreamWaitValue64,
		wait_by_cuStreamWaitValue64_ptsz,
		wait_by_cuStreamWaitValue64_v2,
		wait_by_cuStreamWaitValue64_v2_ptsz,
		wait_by_batch,
		wait_by_batch_ptsz,
	};
	CUstream waiter, writer;
	CUdeviceptr word;
	uint32_t i;

	open_all();
	word = cm_get(512);
	OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		OK(cuMemsetD8_v2(word, 0, 512));
		OK(waits[i](waiter, word));
		OK(cuMemsetD32Async(block, i + 1, MIB / 4, waiter));
		CM_MUST(cuStreamQuery(waiter) == CUDA_ERROR_NOT_READY);
		OK(cuStreamWriteValue64_v2(writer, word, 1, 0));
		must_be(i + 1);
	}
}

#define ROUNDS 200

/* Its library may have the calls all the same, and answer that they are not supported. One wait
 * serves many requests, which is what the segments are for. */
CM_ROLE(old_driver)
{
	CUdeviceptr addr;
	int i;

	open_all();
	for (i = 0; i < ROUNDS; i++) {
		addr = cm_get(MIB);
		OK(cuMemsetD32Async(addr, 1, MIB / 4, NULL));
		OK(cuMemFree_v2(addr));
	}
	CM_MUST(cudasim_calls("cuCtxRecordEvent") == 0);
	CM_MUST(cudasim_calls("cuCtxSynchronize") > 0);
	CM_MUST(cudasim_calls("cuCtxSynchronize") <= ROUNDS / 10);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= ROUNDS / 10);
}

/* What was freed before such a wait is ready behind it: no event is recorded, and nothing asked. */
CM_ROLE(own_waits)
{
	CUdeviceptr addr, first = 0;
	CUcontext ctx;
	int i;

	open_all();
	OK(cuCtxGetCurrent(&ctx));
	for (i = 0; i < ROUNDS; i++) {
		addr = cm_get(16 * MIB);
		if (!first)
			first = addr;
		CM_MUST(addr == first);
		cm_launch_slow(addr);
		OK(cuMemFree_v2(addr));
		OK(i % 2 ? cuCtxSynchronize() : cuCtxSynchronize_v2(ctx));
	}
	CM_MUST(cudasim_calls("cuCtxRecordEvent") == 0);
	CM_MUST(cudasim_calls("cuEventQuery") == 0);
	CM_MUST(cuCtxSynchronize_v2((CUcontext)&addr) == CUDA_ERROR_INVALID_CONTEXT);
}

/* The driver's own free waits for a copy that the host can see: the library asks for nothing. */
CM_ROLE(copy_before_a_free)
{
	const uint32_t wanted = 0x1234;
	uint32_t *host;

	open_all();
	OK(cuMemHostAlloc((void **)&host, 4096, 0));
	OK(cuMemsetD32_v2(block, wanted, 1));
	OK(cuMemcpyDtoHAsync_v2(host, block, 4, cm_new_stream()));
	OK(cuMemFree_v2(block));
	CM_MUST(*host == wanted);
	OK(cuMemFreeHost(host));
	CM_MUST(cudasim_calls("cuEventRecord") == 0);
	CM_MUST(cudasim_calls("cuEventSynchronize") == 0);
	CM_MUST(cudasim_calls("cuStreamQuery") == 0);
}

CM_PLAY_EVERYWHERE(kernels_run_with_their_arguments, "kernels", NULL)
CM_PLAY_EVERYWHERE(graphs_run, "graphs", NULL)
CM_PLAY_EVERYWHERE(host_functions_are_called, "host_functions", NULL)
CM_PLAY_EVERYWHERE(host_functions_may_not_call_cuda, "calls_from_a_host_function", NULL)
CM_PLAY_EVERYWHERE(streams_wait_for_what_they_are_told, "waits", NULL)
CM_PLAY(an_old_driver_is_waited_for_and_served_by_the_cache, "old_driver", "",
	"CUDASIM=version:12040")

CM_PLAY(a_wait_for_the_context_makes_frees_ready, "own_waits", "", NULL)
CM_PLAY(a_wait_makes_frees_ready_without_barriers, "own_waits", "reuse:grow", NULL)
CM_PLAY(a_free_that_is_the_drivers_is_not_waited_for, "copy_before_a_free", "mode:stats", NULL)
