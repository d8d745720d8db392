/* SPDX-License-Identifier: MIT */
/*
 * Stream captures: the driver's own verdict on what is called meanwhile, no call of ours that would
 * spoil one, and the cache at work again once the last has ended, in whatever way.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* With a megabyte ready in the cache: whether a request is served without the driver. */
static bool is_cached(void)
{
	uint64_t calls = cudasim_calls("cuMemAlloc_v2");

	OK(cuMemFree_v2(cm_get(MIB)));
	return cudasim_calls("cuMemAlloc_v2") == calls;
}

/* ---- the driver's verdict ---- */

static void must_be_lost(CUstream stream)
{
	CUgraph graph;

	CM_MUST(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

/* Also where a block is ready: its address would stand in the graph. */
CM_ROLE(global)
{
	CUstream stream;
	CUdeviceptr block, addr;

	cm_open_and_warm();
	block = cm_get(MIB);
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CM_MUST(cuMemAlloc_v2(&addr, MIB) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	must_be_lost(stream);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	must_be_lost(stream);
	/* It was not freed. */
	OK(cuMemsetD8_v2(block, 1, MIB));
	OK(cuMemFree_v2(block));
	CM_MUST(cuMemFree_v2(block) == CUDA_ERROR_INVALID_VALUE);
}

struct other {
	CUcontext ctx;
	CUdeviceptr block;
	CUresult alloc;
	CUresult free;
};

static void *call_elsewhere(void *arg)
{
	struct other *other = arg;
	CUdeviceptr addr = 0;

	OK(cuCtxSetCurrent(other->ctx));
	other->alloc = cuMemAlloc_v2(&addr, MIB);
	if (addr)
		OK(cuMemFree_v2(addr));
	other->free = cuMemFree_v2(other->block);
	return NULL;
}

static struct other from_another_thread(CUdeviceptr block)
{
	struct other other = {.block = block};
	pthread_t thread;

	OK(cuCtxGetCurrent(&other.ctx));
	CM_MUST(!pthread_create(&thread, NULL, call_elsewhere, &other));
	CM_MUST(!pthread_join(thread, NULL));
	return other;
}

CM_ROLE(thread_local)
{
	CUdeviceptr block, addr;
	struct other other;
	CUstream stream;
	CUgraph graph;

	cm_open_and_warm();
	block = cm_get(MIB);
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	other = from_another_thread(block);
	CM_MUST(other.alloc == CUDA_SUCCESS && other.free == CUDA_SUCCESS);
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CM_MUST(cuMemAlloc_v2(&addr, MIB) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	must_be_lost(stream);
	/* In a global one the other thread is forbidden too. */
	block = cm_get(MIB);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	other = from_another_thread(block);
	CM_MUST(other.alloc == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CM_MUST(other.free == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	must_be_lost(stream);
	OK(cuMemFree_v2(block));
}

CM_ROLE(relaxed)
{
	CUdeviceptr addr;
	CUstream stream;
	CUgraph graph;

	cm_open_and_warm();
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	addr = cm_get(MIB);
	OK(cuMemsetD8Async(addr, 1, MIB, stream));
	OK(cuStreamEndCapture(stream, &graph));
	OK(cuMemFree_v2(addr));
}

/* A thread that has made itself relaxed may allocate beside a global capture, as NCCL does. */
CM_ROLE(relaxed_thread)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUstream stream;
	CUgraph graph;

	cm_open_and_warm();
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuThreadExchangeStreamCaptureMode(&mode));
	OK(cuStreamEndCapture(stream, &graph));
}

/* ---- nothing of ours in between ---- */

static uint64_t own_calls(void)
{
	return cudasim_calls("cuCtxRecordEvent") + cudasim_calls("cuCtxWaitEvent") +
	       cudasim_calls("cuEventQuery") + cudasim_calls("cuEventCreate") +
	       cudasim_calls("cuCtxSynchronize") + cudasim_calls("cuEventDestroy_v2");
}

/* Frees large enough to be worth an event, launches that would close the epoch, a trim, a failure
 * for memory: during a capture none of it leads to a call that a capture forbids. */
CM_ROLE(quiet)
{
	__typeof__(cudamem_empty_cache) *empty;
	CUdeviceptr block[8], addr;
	CUfunction hold;
	CUstream stream;
	CUgraph graph;
	uint32_t flag = 1;
	uint64_t calls;
	int i;

	empty = (__typeof__(empty))dlsym(RTLD_DEFAULT, "cudamem_empty_cache");
	CM_MUST(empty);
	cm_open_and_warm();
	hold = cm_load_hold();
	for (i = 0; i < 8; i++)
		block[i] = cm_get(8 * MIB);
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	calls = own_calls();
	for (i = 0; i < 8; i++) {
		cm_launch_hold(hold, stream, block[7], MIB, &flag);
		if (i < 7)
			OK(cuMemFree_v2(block[i]));
	}
	empty();
	CM_MUST(!cudasim_fail("cuMemAllocManaged", 1, CUDA_ERROR_OUT_OF_MEMORY));
	CM_MUST(cuMemAllocManaged(&addr, MIB, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_OUT_OF_MEMORY);
	CM_MUST(own_calls() == calls);
	CM_MUST(cm_allocated() == (int64_t)(8 * MIB));
	OK(cuStreamEndCapture(stream, &graph));
	empty();
	CM_MUST(own_calls() > calls);
	CM_MUST(cm_reserved() <= (int64_t)(20 * MIB));
}

/* What is freed during a capture is used again after it, and not before the device is done. */
CM_ROLE(freed_meanwhile)
{
	static volatile uint32_t flag;
	CUstream stream, worker;
	CUdeviceptr block, next;
	CUfunction hold;
	CUgraph graph;

	cm_open_and_warm();
	hold = cm_load_hold();
	worker = cm_new_stream();
	stream = cm_new_stream();
	block = cm_get(30 * MIB);
	cm_launch_hold(hold, worker, block, 30 * MIB, &flag);
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemFree_v2(block));
	next = cm_get(30 * MIB);
	CM_MUST(next != block);
	OK(cuStreamEndCapture(stream, &graph));
	CM_MUST(cm_get(30 * MIB) != block);
	flag = 1;
	OK(cuCtxSynchronize());
	CM_MUST(cm_get(30 * MIB) == block);
}

/* ---- the cache at work again ---- */

typedef CUresult begin_fn(CUstream stream);

static CUgraph graph_to_fill;

static CUresult begin_1_per_thread(CUstream stream)
{
	return cuStreamBeginCapture_ptsz(stream);
}

static CUresult begin_2(CUstream stream)
{
	return cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult begin_2_per_thread(CUstream stream)
{
	return cuStreamBeginCapture_v2_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult begin_to_graph(CUstream stream)
{
	return cuStreamBeginCaptureToGraph(stream, graph_to_fill, NULL, NULL, 0,
					   CU_STREAM_CAPTURE_MODE_RELAXED);
}

static CUresult begin_to_graph_per_thread(CUstream stream)
{
	return cuStreamBeginCaptureToGraph_ptsz(stream, graph_to_fill, NULL, NULL, 0,
						CU_STREAM_CAPTURE_MODE_RELAXED);
}

/* An empty graph, and so it is again. */
static CUresult begin_again(CUstream stream)
{
	return cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_RELAXED, graph_to_fill,
					     NULL, NULL);
}

static CUresult begin_again_per_thread(CUstream stream)
{
	return cuStreamBeginRecaptureToGraph_ptsz(stream, CU_STREAM_CAPTURE_MODE_RELAXED,
						  graph_to_fill, NULL, NULL);
}

static CUresult end_per_thread(CUstream stream)
{
	CUgraph graph;

	return cuStreamEndCapture_ptsz(stream, &graph);
}

static CUresult end(CUstream stream)
{
	CUgraph graph;

	return cuStreamEndCapture(stream, &graph);
}

/* Every way to begin with every way to end: a library may use other functions than its caller. */
CM_ROLE(resumed)
{
	static begin_fn *const begins[] = {
		cuStreamBeginCapture, begin_1_per_thread,     begin_2,
		begin_2_per_thread,   begin_to_graph,         begin_to_graph_per_thread,
		begin_again,          begin_again_per_thread,
	};
	static begin_fn *const ends[] = {end, end_per_thread, cuStreamDestroy, cuStreamDestroy_v2};
	CUstream stream;
	size_t i, j;

	cm_open_and_warm();
	OK(cuGraphCreate(&graph_to_fill, 0));
	for (i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
		for (j = 0; j < sizeof(ends) / sizeof(ends[0]); j++) {
			stream = cm_new_stream();
			CM_MUST(is_cached());
			OK(begins[i](stream));
			if (begins[i] != cuStreamBeginCapture && begins[i] != begin_1_per_thread)
				CM_MUST(!is_cached());
			OK(ends[j](stream));
			CM_MUST(is_cached());
		}
	}
	/* The stream of a thread has two names. */
	OK(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(end(CU_STREAM_PER_THREAD));
	CM_MUST(is_cached());
}

/* A begin or an end that fails counts for nothing; a lost capture is over with its end. */
CM_ROLE(failed)
{
	CUstream stream;

	cm_open_and_warm();
	CM_MUST(begin_2(NULL) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CM_MUST(is_cached());
	stream = cm_new_stream();
	CM_MUST(end(stream) == CUDA_ERROR_ILLEGAL_STATE);
	CM_MUST(is_cached());
	OK(begin_2(stream));
	CM_MUST(begin_2(stream) == CUDA_ERROR_ILLEGAL_STATE);
	CM_MUST(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	CM_MUST(!is_cached());
	must_be_lost(stream);
	CM_MUST(is_cached());
}

static CUstream captured_here;

static void *end_elsewhere(void *arg)
{
	CM_MUST(end(captured_here) == CUDA_ERROR_INVALID_CONTEXT);
	OK(cuCtxSetCurrent(arg));
	CM_MUST(!is_cached());
	CM_MUST(end(captured_here) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	CM_MUST(!is_cached());
	return NULL;
}

CM_ROLE(wrong_thread)
{
	pthread_t thread;
	CUcontext ctx;

	cm_open_and_warm();
	captured_here = cm_new_stream();
	OK(cuStreamBeginCapture_v2(captured_here, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	OK(cuCtxGetCurrent(&ctx));
	CM_MUST(!pthread_create(&thread, NULL, end_elsewhere, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	OK(end(captured_here));
	CM_MUST(is_cached());
}

static void must_not_end(void)
{
	CUgraph graph;

	CM_MUST(cuStreamEndCapture_ptsz(NULL, &graph) == CUDA_ERROR_ILLEGAL_STATE);
	CM_MUST(!is_cached());
}

static void *end_own(void *arg)
{
	OK(cuCtxSetCurrent(arg));
	must_not_end();
	return NULL;
}

/* Each thread has a default stream of its own in each context, all of one name. */
CM_ROLE(each_own)
{
	CUcontext ctx, other;
	pthread_t thread;
	CUgraph graph;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&ctx));
	OK(cuCtxCreate_v2(&other, 0, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamBeginCapture_v2_ptsz(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
	CM_MUST(!pthread_create(&thread, NULL, end_own, ctx));
	CM_MUST(!pthread_join(thread, NULL));
	OK(cuCtxSetCurrent(other));
	must_not_end();
	OK(cuCtxSetCurrent(ctx));
	OK(cuStreamEndCapture_ptsz(NULL, &graph));
	CM_MUST(is_cached());
}

/* A second stream is drawn in by an event, and ends with the first. */
CM_ROLE(forked)
{
	CUstream first, second;
	CUevent fork, join;
	CUgraph graph;
	CUdeviceptr addr;

	cm_open_and_warm();
	addr = cm_get(MIB);
	first = cm_new_stream();
	second = cm_new_stream();
	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	OK(cuStreamBeginCapture_v2(first, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuEventRecord(fork, first));
	OK(cuStreamWaitEvent(second, fork, 0));
	OK(cuMemsetD8Async(addr, 1, MIB, second));
	if (cm_is_here())
		CM_MUST(!is_cached());
	OK(cuEventRecord(join, second));
	OK(cuStreamWaitEvent(first, join, 0));
	OK(cuStreamEndCapture(first, &graph));
	OK(cuMemFree_v2(addr));
}

/* Captures of several threads at once: the cache rests until the last has ended. */

static pthread_barrier_t step;

static void *capture_elsewhere(void *arg)
{
	CUstream stream;

	OK(cuCtxSetCurrent(arg));
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	(void)pthread_barrier_wait(&step); /* both capture */
	(void)pthread_barrier_wait(&step); /* the other has ended */
	OK(end(stream));
	return NULL;
}

CM_ROLE(several)
{
	pthread_t thread;
	CUstream stream;
	CUcontext ctx;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&ctx));
	CM_MUST(!pthread_barrier_init(&step, NULL, 2));
	stream = cm_new_stream();
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	CM_MUST(!pthread_create(&thread, NULL, capture_elsewhere, ctx));
	(void)pthread_barrier_wait(&step);
	OK(end(stream));
	CM_MUST(!is_cached());
	(void)pthread_barrier_wait(&step);
	CM_MUST(!pthread_join(thread, NULL));
	CM_MUST(is_cached());
}

/* One inside the other, on one thread: as a library captures for a part of its caller's graph. */
CM_ROLE(nested)
{
	CUgraph inner_graph, outer_graph;
	CUstream outer, inner;
	CUdeviceptr addr;

	cm_open_and_warm();
	addr = cm_get(MIB);
	outer = cm_new_stream();
	inner = cm_new_stream();
	OK(cuStreamBeginCapture_v2(outer, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(addr, 1, MIB, outer));
	OK(cuStreamBeginCapture_v2(inner, CU_STREAM_CAPTURE_MODE_RELAXED));
	OK(cuMemsetD8Async(addr, 2, MIB, inner));
	if (getenv("CACHED"))
		CM_MUST(!is_cached());
	OK(cuStreamEndCapture(inner, &inner_graph));
	if (getenv("CACHED"))
		CM_MUST(!is_cached());
	OK(cuMemsetD8Async(addr, 3, MIB, outer));
	OK(cuStreamEndCapture(outer, &outer_graph));
	if (getenv("CACHED"))
		CM_MUST(is_cached());
	OK(cuMemFree_v2(addr));
}

CM_ROLE(context_end)
{
	CUcontext primary, ctx;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&primary));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	OK(begin_2(cm_new_stream()));
	OK(cuCtxDestroy_v2(ctx));
	OK(cuCtxSetCurrent(primary));
	CM_MUST(is_cached());
}

/* A stream is captured where another context than its own is current. */
CM_ROLE(other_context_end)
{
	CUcontext primary, ctx;
	CUstream stream;

	cm_open_and_warm();
	OK(cuCtxGetCurrent(&primary));
	OK(cuCtxCreate_v2(&ctx, 0, 0));
	stream = cm_new_stream();
	OK(cuCtxSetCurrent(primary));
	OK(begin_2(stream));
	CM_MUST(!is_cached());
	OK(cuCtxDestroy_v2(ctx));
	CM_MUST(is_cached());
}

/* ---- memory nodes ---- */

CM_ROLE(memory_nodes)
{
	CUDA_MEM_ALLOC_NODE_PARAMS params = {
		.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
			      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
		.bytesize = 4 * MIB};
	CUgraphNode get, give;
	CUgraphExec exec;
	CUgraph graph;
	int i;

	cm_open_and_warm();
	OK(cuGraphCreate(&graph, 0));
	OK(cuGraphAddMemAllocNode(&get, graph, NULL, 0, &params));
	OK(cuGraphAddMemFreeNode(&give, graph, &get, 1, params.dptr));
	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	for (i = 0; i < 3; i++)
		OK(cuGraphLaunch(exec, NULL));
	OK(cuCtxSynchronize());
	OK(cuGraphExecDestroy(exec));
	OK(cuGraphDestroy(graph));
	CM_MUST(cuMemFree_v2(params.dptr) != CUDA_SUCCESS);
}

CM_PLAY_EVERYWHERE(a_global_capture_forbids_what_it_does_natively, "global", NULL)
CM_PLAY_EVERYWHERE(a_thread_local_capture_forbids_its_thread_alone, "thread_local", NULL)
CM_PLAY_EVERYWHERE(a_relaxed_capture_forbids_nothing, "relaxed", NULL)
CM_PLAY_EVERYWHERE(a_relaxed_thread_allocates_beside_a_capture, "relaxed_thread", NULL)
CM_PLAY(nothing_of_ours_spoils_a_capture, "quiet", "oom_report:off", NULL)
CM_PLAY(what_is_freed_during_a_capture_waits_for_its_end, "freed_meanwhile", "reuse:grow", NULL)
CM_PLAY(the_cache_is_at_work_again_after_any_end, "resumed", "", "CUDASIM=memory:6G")
CM_PLAY(what_fails_around_a_capture_counts_for_nothing, "failed", "", NULL)
CM_PLAY(an_end_by_the_wrong_thread_is_none, "wrong_thread", "", NULL)
CM_PLAY(an_end_of_another_default_stream_is_none, "each_own", "", NULL)
CM_PLAY_EVERYWHERE(a_capture_of_two_streams_is_one, "forked", NULL)
CM_PLAY(the_cache_rests_until_the_last_of_several_ends, "several", "", NULL)
CM_PLAY_EVERYWHERE(captures_may_be_nested, "nested", NULL)
CM_PLAY(the_cache_rests_until_the_outer_capture_ends, "nested", "", "CACHED=1")
CM_PLAY(a_capture_ends_with_its_context, "context_end", "", NULL)
CM_PLAY(a_capture_ends_with_the_context_of_its_stream, "other_context_end", "", NULL)
CM_PLAY_EVERYWHERE(memory_nodes_are_the_graphs, "memory_nodes", NULL)
