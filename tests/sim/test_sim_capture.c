/* SPDX-License-Identifier: MIT */
/* Captures and graphs of the simulated driver. */
#include <pthread.h>

#include "sim_test.h"

#define RECAPTURE_FAILURE ((CUresult)918) /* CUDA_ERROR_GRAPH_RECAPTURE_FAILURE, of CUDA 13.3 */

static const char KERNELS[] = "cudasim-module\n"
			      "kernel work\n time 50us\nend\n"
			      "kernel fill\n params ptr u32 u64\n time 10us\n"
			      " writes p0 p2*4\n do fill p0 p1 p2\nend\n";

static CUstream make_stream(unsigned flags)
{
	CUstream stream = NULL;

	assert_ok(cuStreamCreate(&stream, flags));
	return stream;
}

static CUstream begin(unsigned flags, CUstreamCaptureMode mode)
{
	CUstream stream = make_stream(flags);

	assert_ok(cuStreamBeginCapture(stream, mode));
	return stream;
}

static void assert_lost(CUstream stream)
{
	CUstreamCaptureStatus status;
	CUgraph graph;

	assert_ok(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
	assert_error(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	assert_null(graph);
	assert_ok(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

static void assert_whole(CUstream stream, size_t nodes)
{
	CUgraph graph;
	size_t count = 0;

	assert_ok(cuStreamEndCapture(stream, &graph));
	assert_ok(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, nodes);
	assert_ok(cuGraphDestroy(graph));
}

with_context(captured_work_runs_when_launched)
{
	CUfunction fill = load_kernel(KERNELS, "fill");
	uint64_t count = 1;
	uint32_t value = 3;
	CUdeviceptr addr;
	void *params[] = {&addr, &value, &count};
	CUstream stream;
	CUgraph graph;
	CUgraphExec exec;

	assert_ok(cuMemAlloc(&addr, 4));
	assert_ok(cuMemsetD32(addr, 0, 1));
	stream = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	launch(fill, stream, params);
	assert_ok(cuStreamEndCapture(stream, &graph));
	assert_ok(cuGraphInstantiate(&exec, graph, 0));
	assert_ok(cuCtxSynchronize());
	assert_int_equal(*(uint32_t *)addr, 0);
	assert_ok(cuGraphLaunch(exec, stream));
	assert_ok(cuStreamSynchronize(stream));
	assert_int_equal(*(uint32_t *)addr, 3);
	/* What was captured were values, not variables. */
	value = 4;
	assert_ok(cuMemsetD32(addr, 0, 1));
	assert_ok(cuGraphDestroy(graph));
	assert_ok(cuGraphLaunch(exec, stream));
	assert_ok(cuStreamSynchronize(stream));
	assert_int_equal(*(uint32_t *)addr, 3);
	assert_ok(cuGraphExecDestroy(exec));
	assert_error(cuGraphLaunch(exec, stream), CUDA_ERROR_INVALID_VALUE);
}

with_context(forks_join_and_overlap)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream origin = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
	CUevent fork;
	CUevent join;
	CUgraph graph;
	CUgraphExec exec;
	uint64_t start;

	assert_ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	launch(work, origin, NULL);
	assert_ok(cuEventRecord(fork, origin));
	assert_ok(cuStreamWaitEvent(other, fork, 0));
	launch(work, origin, NULL);
	launch(work, other, NULL);
	assert_ok(cuEventRecord(join, other));
	assert_ok(cuStreamWaitEvent(origin, join, 0));
	launch(work, origin, NULL);
	assert_ok(cuStreamEndCapture(origin, &graph));
	assert_ok(cuGraphInstantiate(&exec, graph, 0));
	start = cudasim_now();
	assert_ok(cuGraphLaunch(exec, origin));
	launch(work, other, NULL);
	assert_ok(cuStreamSynchronize(origin));
	assert_int_equal(cudasim_now() - start, 150 * US);
	assert_ok(cuGraphLaunch(exec, origin));
	assert_ok(cuGraphLaunch(exec, other));
	assert_ok(cuCtxSynchronize());
	/* One executable graph does not overlap itself. */
	assert_int_equal(cudasim_now() - start, 450 * US);
}

with_context(unjoined_work_is_an_error)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream origin = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	CUstream other = make_stream(CU_STREAM_NON_BLOCKING);
	CUstreamCaptureStatus status;
	CUevent fork;
	CUgraph graph;

	assert_ok(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuEventRecord(fork, origin));
	assert_ok(cuStreamWaitEvent(other, fork, 0));
	launch(work, other, NULL);
	assert_error(cuStreamEndCapture(other, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	assert_error(cuStreamEndCapture(origin, &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
	assert_ok(cuStreamIsCapturing(other, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	assert_error(cuStreamEndCapture(origin, &graph), CUDA_ERROR_ILLEGAL_STATE);
}

/* Calls that a capture in GLOBAL mode forbids everywhere; each is made once. */
static CUresult call_alloc(void)
{
	CUdeviceptr addr;

	return cuMemAlloc(&addr, 16);
}

static CUresult call_host_alloc(void)
{
	void *addr;

	return cuMemHostAlloc(&addr, 16, 0);
}

static CUresult call_free(void)
{
	return cuMemFree(12345);
}

static CUevent idle_event;

static CUresult call_event_query(void)
{
	return cuEventQuery(idle_event);
}

with_context(unsafe_calls_lose_a_global_capture)
{
	CUresult (*const calls[])(void) = {call_alloc, call_host_alloc, call_free,
					   call_event_query};

	assert_ok(cuEventCreate(&idle_event, CU_EVENT_DISABLE_TIMING));
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		CUstream stream = begin(0, CU_STREAM_CAPTURE_MODE_GLOBAL);

		assert_error(calls[i](), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		assert_lost(stream);
	}
}

struct foreign {
	CUcontext ctx;
	CUstreamCaptureMode mode;
	CUresult result;
};

static void *alloc_elsewhere(void *data)
{
	struct foreign *foreign = data;

	(void)cuCtxSetCurrent(foreign->ctx);
	(void)cuThreadExchangeStreamCaptureMode(&foreign->mode);
	foreign->result = call_alloc();
	return NULL;
}

static CUresult alloc_in_thread(CUcontext ctx, CUstreamCaptureMode mode)
{
	struct foreign foreign = {.ctx = ctx, .mode = mode};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, alloc_elsewhere, &foreign), 0);
	pthread_join(thread, NULL);
	return foreign.result;
}

with_context(modes_say_whom_a_capture_forbids)
{
	const CUstreamCaptureMode global = CU_STREAM_CAPTURE_MODE_GLOBAL;
	const CUstreamCaptureMode local = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
	const CUstreamCaptureMode relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;
	const struct {
		CUstreamCaptureMode capture;
		CUstreamCaptureMode caller;
		CUresult own;
		CUresult foreign;
	} cases[] = {
		{global, global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
		 CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED},
		{global, local, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_SUCCESS},
		{global, relaxed, CUDA_SUCCESS, CUDA_SUCCESS},
		{local, global, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_SUCCESS},
		{local, relaxed, CUDA_SUCCESS, CUDA_SUCCESS},
		{relaxed, global, CUDA_SUCCESS, CUDA_SUCCESS},
	};

	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CUstreamCaptureMode mode = cases[i].caller;
		CUstream stream = begin(0, cases[i].capture);
		CUgraph graph;

		if (alloc_in_thread(*state, cases[i].caller) != cases[i].foreign)
			fail_msg("case %u: another thread", i);
		assert_ok(cuThreadExchangeStreamCaptureMode(&mode));
		if (call_alloc() != cases[i].own)
			fail_msg("case %u: the capturing thread", i);
		assert_ok(cuThreadExchangeStreamCaptureMode(&mode));
		(void)cuStreamEndCapture(stream, &graph);
	}
}

with_context(context_events_lose_captures_in_any_mode)
{
	CUevent event;
	CUstream stream;

	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuCtxRecordEvent(*state, event));
	stream = begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_error(cuCtxRecordEvent(*state, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_lost(stream);
	stream = begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_error(cuCtxWaitEvent(*state, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_lost(stream);
	stream = begin(0, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_error(cuStreamSynchronize(stream), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	assert_lost(stream);
}

with_context(the_legacy_stream_would_drag_captures_in)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream stream = begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
	CUstreamCaptureStatus status;

	assert_error(cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		     CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_lost(stream);
	assert_error(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
		     CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	/* A question alone spoils nothing. */
	stream = begin(CU_STREAM_DEFAULT, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_error(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	assert_whole(stream, 0);
	stream = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	launch(work, NULL, NULL);
	assert_ok(cuStreamIsCapturing(NULL, &status));
	assert_whole(stream, 0);
}

with_context(captures_do_not_mix_with_what_is_outside)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream outside = make_stream(CU_STREAM_NON_BLOCKING);
	CUstream first = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	CUstream second;
	CUevent event;

	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	launch(work, outside, NULL);
	assert_ok(cuEventRecord(event, outside));
	assert_error(cuStreamWaitEvent(first, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	assert_lost(first);
	first = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	second = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	assert_ok(cuEventRecord(event, first));
	assert_error(cuStreamWaitEvent(second, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	assert_lost(first);
	assert_lost(second);
	assert_error(cuStreamWaitEvent(outside, event, 0), CUDA_ERROR_CAPTURED_EVENT);
}

with_context(a_captured_event_cannot_be_asked)
{
	CUstream stream = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_RELAXED);
	CUevent event;

	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_ok(cuEventRecord(event, stream));
	assert_error(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	assert_lost(stream);
	assert_ok(cuEventRecord(event, stream));
	assert_ok(cuEventSynchronize(event));
}

static void *end_elsewhere(void *stream)
{
	CUgraph graph;

	return (void *)(uintptr_t)cuStreamEndCapture(stream, &graph);
}

with_context(captures_end_where_they_began)
{
	CUstream stream = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	pthread_t thread;
	void *result;

	assert_error(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
		     CUDA_ERROR_ILLEGAL_STATE);
	assert_lost(stream);
	assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, stream), 0);
	pthread_join(thread, &result);
	/* The thread has no context: what it hears of the stream comes after that. */
	assert_int_equal((uintptr_t)result, CUDA_ERROR_INVALID_CONTEXT);
	assert_whole(stream, 0);
}

with_context(memory_of_a_capture_is_the_graphs)
{
	CUfunction fill = load_kernel(KERNELS, "fill");
	CUstream stream = begin(CU_STREAM_NON_BLOCKING, CU_STREAM_CAPTURE_MODE_GLOBAL);
	uint64_t before = cudasim_live_allocations(0);
	uint64_t count = 16;
	uint32_t value = 8;
	CUdeviceptr addr;
	void *params[] = {&addr, &value, &count};
	CUgraphNodeType type;
	CUgraphNode node;
	CUgraph graph;
	CUgraphExec exec;
	size_t one = 1;

	assert_ok(cuMemAllocAsync(&addr, 4096, stream));
	launch(fill, stream, params);
	assert_ok(cuMemFreeAsync(addr, stream));
	assert_ok(cuStreamEndCapture(stream, &graph));
	assert_ok(cuGraphGetRootNodes(graph, &node, &one));
	assert_ok(cuGraphNodeGetType(node, &type));
	assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
	assert_ok(cuGraphInstantiate(&exec, graph, 0));
	assert_ok(cuGraphDestroy(graph));
	assert_ok(cuGraphLaunch(exec, stream));
	assert_ok(cuStreamSynchronize(stream));
	assert_ok(cuGraphExecDestroy(exec));
	assert_int_equal(cudasim_live_allocations(0), before);
}

with_context(a_capture_can_extend_a_graph)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
	CUgraphNode first;
	CUgraph graph;
	CUgraph same;
	size_t edges = 0;

	assert_ok(cuGraphCreate(&graph, 0));
	assert_ok(cuGraphAddEmptyNode(&first, graph, NULL, 0));
	assert_ok(cuStreamBeginCaptureToGraph(stream, graph, &first, NULL, 1,
					      CU_STREAM_CAPTURE_MODE_GLOBAL));
	launch(work, stream, NULL);
	assert_ok(cuStreamEndCapture(stream, &same));
	assert_ptr_equal(same, graph);
	assert_ok(cuGraphGetEdges(graph, NULL, NULL, NULL, &edges));
	assert_int_equal(edges, 1);
	assert_ok(cuGraphDestroy(graph));
}

static CUresult recapture(CUstream stream, CUgraph graph)
{
	return cuStreamBeginRecaptureToGraph(stream, CU_STREAM_CAPTURE_MODE_GLOBAL, graph, NULL,
					     NULL);
}

static void capture_fills(CUstream stream, CUdeviceptr addr, unsigned char first)
{
	assert_ok(cuMemsetD8Async(addr, first, 16, stream));
	assert_ok(cuMemsetD8Async(addr, first + 1, 8, stream));
}

static void assert_runs(CUgraph graph, CUstream stream, CUdeviceptr addr, unsigned char first)
{
	unsigned char bytes[16];
	CUgraphExec exec;

	assert_ok(cuGraphInstantiate(&exec, graph, 0));
	assert_ok(cuGraphLaunch(exec, stream));
	assert_ok(cuStreamSynchronize(stream));
	assert_ok(cuMemcpyDtoH(bytes, addr, sizeof(bytes)));
	assert_int_equal(bytes[0], first + 1);
	assert_int_equal(bytes[15], first);
}

static void do_nothing(void *data)
{
	(void)data;
}

/* Its nodes are what is captured now, in the same order and places. */
with_context(a_graph_can_be_captured_again)
{
	CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr addr;
	CUgraph graph, same;

	assert_ok(cuMemAlloc(&addr, 16));
	assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	capture_fills(stream, addr, 1);
	assert_ok(cuStreamEndCapture(stream, &graph));
	assert_runs(graph, stream, addr, 1);

	assert_ok(recapture(stream, graph));
	capture_fills(stream, addr, 3);
	assert_ok(cuStreamEndCapture(stream, &same));
	assert_ptr_equal(same, graph);
	assert_runs(graph, stream, addr, 3);
}

/* Too little, too much, or of another kind. */
with_context(a_graph_is_captured_again_as_it_was)
{
	CUstream stream = make_stream(CU_STREAM_NON_BLOCKING);
	CUdeviceptr addr;
	CUgraph graph, same;

	assert_ok(cuMemAlloc(&addr, 16));
	assert_error(recapture(stream, NULL), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
	capture_fills(stream, addr, 1);
	assert_ok(cuStreamEndCapture(stream, &graph));
	assert_ok(recapture(stream, graph));
	assert_error(cuStreamEndCapture(stream, &same), RECAPTURE_FAILURE);
	assert_ok(recapture(stream, graph));
	assert_error(cuLaunchHostFunc(stream, do_nothing, NULL), RECAPTURE_FAILURE);
	assert_lost(stream);
	assert_ok(recapture(stream, graph));
	capture_fills(stream, addr, 1);
	assert_error(cuMemsetD8Async(addr, 1, 16, stream), RECAPTURE_FAILURE);
	assert_lost(stream);
}

int main(void)
{
	setenv("CUDASIM", "memory:1G", 1);
	return cm_run_tests(NULL, NULL);
}
