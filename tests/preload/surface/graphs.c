/* SPDX-License-Identifier: MIT */
#include "tests/preload/surface/graphs.h"

volatile uint32_t cm_flag;

struct cm_scene cm_scene_open(void)
{
	static const char text[] =
		"cudasim-module\nkernel touch\n params ptr\n writes p0 512\nend\n";
	struct cm_scene scene = {.first = cm_open(0)};

	scene.on_first = cm_load(text, "touch");
	scene.other = cm_get(CM_SCENE_BLOCK);
	scene.second = cm_open(1);
	scene.on_second = cm_load(text, "touch");
	scene.own = cm_get(CM_SCENE_BLOCK);
	scene.stream = cm_new_stream();
	return scene;
}

void cm_touch(CUfunction function, CUstream stream, CUdeviceptr addr)
{
	void *params[] = {&addr};

	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

void cm_capture_begin(CUstream stream)
{
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

CUgraph cm_capture_end(CUstream stream)
{
	CUgraph graph;

	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

CUgraph cm_graph_create(void)
{
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	return graph;
}

CUgraphExec cm_graph_instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

void cm_hold_fill_in(struct cm_held_kernel *hold, CUdeviceptr addr)
{
	*hold = (struct cm_held_kernel){.addr = addr, .bytes = 512, .flag = &cm_flag};
	hold->params[0] = &hold->addr;
	hold->params[1] = &hold->bytes;
	hold->params[2] = &hold->flag;
}

CUkernel cm_load_hold_kernel(void)
{
	static const char text[] = "cudasim-module\nkernel hold\n params ptr u64 ptr\n"
				   " writes p0 p1\n until p2\nend\n";
	CUlibrary library;
	CUkernel kernel;

	OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "hold"));
	return kernel;
}

CUgraphNode cm_graph_add_hold(CUgraph graph, CUfunction function, CUdeviceptr addr)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUgraphNode node;
	struct cm_held_kernel kernel;

	cm_hold_fill_in(&kernel, addr);
	params.kernel.func = function;
	params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
	params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
	params.kernel.kernelParams = kernel.params;
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
	return node;
}

CUgraph cm_graph_hold_in(CUcontext ctx, CUdeviceptr addr)
{
	CUgraph graph = cm_graph_create();
	CUgraphNode node;
	struct cm_held_kernel kernel;

	cm_hold_fill_in(&kernel, addr);
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0,
				   &(CUDA_KERNEL_NODE_PARAMS_v2){CM_HOLD_PARAMS(NULL, &kernel),
								 .kern = cm_load_hold_kernel(),
								 .ctx = ctx}));
	return graph;
}
