/* SPDX-License-Identifier: MIT */
/*
 * Graphs: captured work that is replayed while blocks come and go beside it, memory nodes, and what
 * allocating during a capture answers.
 */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { COUNT = 1 << 16, REPLAYS = 50 };

static CUstream stream;
static uint64_t wrong;

static uint32_t bits(float value)
{
	union {
		float value;
		uint32_t bits;
	} both = {value};

	return both.bits;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	CHECK(cuGraphInstantiate(&exec, graph, 0));
	CHECK(cuGraphDestroy(graph));
	return exec;
}

/* c = (a + b) * 2, over and over, with other blocks allocated, written and freed in between. */
static void replay(void)
{
	size_t bytes = COUNT * sizeof(float);
	CUdeviceptr a = device_alloc(bytes), b = device_alloc(bytes), c = device_alloc(bytes);
	CUgraphExec exec;
	CUgraph graph;
	int i;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
	device_add(c, a, b, COUNT, stream);
	device_scale(c, c, 2, COUNT, stream);
	CHECK(cuStreamEndCapture(stream, &graph));
	exec = instantiate(graph);
	for (i = 0; i < REPLAYS; i++) {
		CUdeviceptr other = device_alloc(bytes * (size_t)(1 + i % 7));

		device_fill(other, 0xffffffff, COUNT, stream);
		device_fill(a, bits((float)i), COUNT, stream);
		device_fill(b, bits(1), COUNT, stream);
		device_free(other);
		CHECK(cuGraphLaunch(exec, stream));
		wrong += device_wrong(c, bits(2 * ((float)i + 1)), COUNT, stream);
	}
	CHECK(cuGraphExecDestroy(exec));
	device_free(a);
	device_free(b);
	device_free(c);
	printf("replayed: %d\n", REPLAYS);
}

/* Memory that lives within the graph. */
static void memory_nodes(void)
{
	CUdeviceptr out = device_alloc(COUNT * sizeof(float)), inside;
	CUgraphExec exec;
	CUgraph graph;
	int i;

	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	CHECK(cuMemAllocAsync(&inside, COUNT * sizeof(float), stream));
	device_fill(inside, bits(21), COUNT, stream);
	device_scale(out, inside, 2, COUNT, stream);
	CHECK(cuMemFreeAsync(inside, stream));
	CHECK(cuStreamEndCapture(stream, &graph));
	exec = instantiate(graph);
	for (i = 0; i < REPLAYS; i++) {
		device_fill(out, 0, COUNT, stream);
		CHECK(cuGraphLaunch(exec, stream));
		wrong += device_wrong(out, bits(42), COUNT, stream);
	}
	CHECK(cuGraphExecDestroy(exec));
	device_free(out);
	printf("memory nodes: %d\n", REPLAYS);
}

/* The program hears the driver's verdict on an allocation in the middle of a capture. */
static void alloc_in_capture(CUstreamCaptureMode mode, const char *name)
{
	CUdeviceptr warm = device_alloc(MIB), at = 0;
	CUgraph graph = NULL;
	CUresult result, end;

	device_free(warm);
	CHECK(cuStreamBeginCapture(stream, mode));
	result = cuMemAlloc(&at, MIB);
	end = cuStreamEndCapture(stream, &graph);
	printf("cuMemAlloc in a %s capture: %s; the capture: %s\n", name, device_error(result),
	       device_error(end));
	if (result == CUDA_SUCCESS)
		device_free(at);
	if (graph)
		CHECK(cuGraphDestroy(graph));
}

/* A free during a capture of another thread's kind goes on as it does natively or better; what is
 * freed is not used again while the capture is active. */
static void free_beside_capture(void)
{
	CUdeviceptr a = device_alloc(COUNT * sizeof(float)),
		    b = device_alloc(COUNT * sizeof(float));
	CUgraphExec exec;
	CUgraph graph;

	device_fill(a, bits(5), COUNT, stream);
	CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
	device_scale(b, a, 3, COUNT, stream);
	CHECK(cuStreamEndCapture(stream, &graph));
	exec = instantiate(graph);
	CHECK(cuGraphLaunch(exec, stream));
	wrong += device_wrong(b, bits(15), COUNT, stream);
	CHECK(cuGraphExecDestroy(exec));
	device_free(a);
	device_free(b);
}

int main(void)
{
	device_open();
	stream = device_stream();
	replay();
	memory_nodes();
	alloc_in_capture(CU_STREAM_CAPTURE_MODE_GLOBAL, "global");
	alloc_in_capture(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, "thread-local");
	alloc_in_capture(CU_STREAM_CAPTURE_MODE_RELAXED, "relaxed");
	free_beside_capture();
	replay();
	printf("wrong: %llu\n", (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
