/* SPDX-License-Identifier: MIT */
/*
 * Graphs in a process with two devices: what is launched on device 1 holds back memory of device 0
 * if a node of the graph may reach that memory.
 */
#include "tests/preload/api.h"
#include "tests/preload/surface/graphs.h"
#include "tests/unit/cmocka_all.h"

/* A stream of device 0 takes part in the capture. */
static CUgraph capture_across(const struct cm_scene *scene)
{
	CUstream stream;
	CUevent fork, join;

	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuCtxSetCurrent(scene->first));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	stream = cm_new_stream();
	cm_capture_begin(scene->stream);
	OK(cuEventRecord(fork, scene->stream));
	OK(cuStreamWaitEvent(stream, fork, 0));
	cm_touch(scene->on_first, stream, scene->other);
	OK(cuEventRecord(join, stream));
	OK(cuStreamWaitEvent_ptsz(scene->stream, join, 0));
	return cm_capture_end(scene->stream);
}

static CUgraph capture_on_first(const struct cm_scene *scene)
{
	CUstream stream;

	OK(cuCtxSetCurrent(scene->first));
	stream = cm_new_stream();
	cm_capture_begin(stream);
	cm_touch(scene->on_first, stream, scene->other);
	return cm_capture_end(stream);
}

/* A graph of device 0 is launched in a capture on device 1. */
static CUgraph capture_graph(const struct cm_scene *scene)
{
	CUgraphExec exec = cm_graph_instantiate(capture_on_first(scene));

	cm_capture_begin(scene->stream);
	cm_touch(scene->on_second, scene->stream, scene->own);
	OK(cuGraphLaunch(exec, scene->stream));
	return cm_capture_end(scene->stream);
}

static CUgraph capture_copy(const struct cm_scene *scene)
{
	cm_capture_begin(scene->stream);
	OK(cuMemcpyAsync(scene->own, scene->other, 512, scene->stream));
	return cm_capture_end(scene->stream);
}

static CUgraph capture_on_second(const struct cm_scene *scene)
{
	cm_capture_begin(scene->stream);
	cm_touch(scene->on_second, scene->stream, scene->own);
	return cm_capture_end(scene->stream);
}

/* The kernels of these are of the type that cm_touch() launches. */
#define TOUCH_OF(function, params)                                                       \
	.func = (function), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, \
	.blockDimY = 1, .blockDimZ = 1, .kernelParams = (params)

static CUgraph add_kernel(const struct cm_scene *scene)
{
	CUdeviceptr addr = scene->other;
	void *params[] = {&addr};
	CUgraph graph = capture_on_second(scene);
	CUgraphNode node;

	OK(cuCtxSetCurrent(scene->first));
	OK(cuGraphAddKernelNode_v2(
		&node, graph, NULL, 0,
		&(CUDA_KERNEL_NODE_PARAMS_v2){TOUCH_OF(scene->on_first, params)}));
	return graph;
}

/* The context of the function counts, and not the current one. */
static CUgraph add_kernel_elsewhere(const struct cm_scene *scene)
{
	CUdeviceptr addr = scene->other;
	void *params[] = {&addr};
	CUgraph graph = cm_graph_create();
	CUgraphNode node;

	OK(cuGraphAddKernelNode(&node, graph, NULL, 0,
				&(CUDA_KERNEL_NODE_PARAMS_v1){TOUCH_OF(scene->on_first, params)}));
	return graph;
}

static CUgraph add_in_first(const struct cm_scene *scene)
{
	return cm_graph_hold_in(scene->first, scene->other);
}

static CUgraph add_any_node(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();

	(void)cm_graph_add_hold(graph, cm_load_hold(), scene->own);
	OK(cuCtxSetCurrent(scene->first));
	(void)cm_graph_add_hold(graph, cm_load_hold(), scene->other);
	return graph;
}

static CUgraph add_any_child(const struct cm_scene *scene)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	CUgraph graph = cm_graph_create();
	CUgraphNode node;

	params.graph.graph = add_kernel(scene);
	OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
	return graph;
}

/* The graph inside a node, which no call has made, gets the kernel. */
static CUgraph add_into_child(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create(), child;
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, capture_on_second(scene)));
	OK(cuGraphChildGraphNodeGetGraph(node, &child));
	(void)cm_graph_add_hold(child, scene->on_first, scene->other);
	return graph;
}

/* The graph itself is the one inside the node from now on. */
static CUgraph add_into_moved_child(const struct cm_scene *scene)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	CUgraph graph = cm_graph_create();
	CUgraphNode node;

	params.graph.graph = capture_on_second(scene);
	params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
	(void)cm_graph_add_hold(params.graph.graph, scene->on_first, scene->other);
	return graph;
}

/* And its handle is that of a graph that was destroyed. */
static CUgraph add_into_reborn_child(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create(), old, child, inner = capture_on_second(scene);
	CUgraphNode node;

	old = cm_graph_create();
	OK(cuGraphDestroy(old));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
	OK(cuGraphChildGraphNodeGetGraph(node, &child));
	CM_MUST(child == old);
	(void)cm_graph_add_hold(child, scene->on_first, scene->other);
	return graph;
}

static CUgraph clone_any(const struct cm_scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, add_kernel(scene)));
	return clone;
}

static CUgraph capture_word(const struct cm_scene *scene)
{
	cm_capture_begin(scene->stream);
	OK(cuStreamWriteValue32(scene->stream, scene->own, 1, 0));
	return cm_capture_end(scene->stream);
}

/* A call replaces the kernel of a node, and does not say of which graph it is. */
#define CHANGED_BY(name, symbol, type)                                                   \
	static CUgraph name(const struct cm_scene *scene)                                \
	{                                                                                \
		CUgraph graph = cm_graph_create();                                       \
		CUgraphNode node = cm_graph_add_hold(graph, cm_load_hold(), scene->own); \
		CUdeviceptr addr = scene->other;                                         \
		void *params[] = {&addr};                                                \
                                                                                         \
		OK(symbol(node, &(type){TOUCH_OF(scene->on_first, params)}));            \
		return graph;                                                            \
	}
CHANGED_BY(changed_by_params, cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1)
CHANGED_BY(changed_by_params_2, cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2)

static CUgraph changed_by_params_of_any(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();
	CUgraphNode node = cm_graph_add_hold(graph, cm_load_hold(), scene->own);
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUdeviceptr addr = scene->other;
	void *list[] = {&addr};

	params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){TOUCH_OF(scene->on_first, list)};
	OK(cuGraphNodeSetParams(node, &params));
	return graph;
}

/* The graph is reached while the capture makes it. */
static CUgraph changed_in_a_capture(const struct cm_scene *scene)
{
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUgraphNode node;

	cm_capture_begin(scene->stream);
	cm_touch(scene->on_second, scene->stream, scene->own);
	OK(cuStreamGetCaptureInfo_v2(scene->stream, &status, NULL, &graph, NULL, NULL));
	node = cm_graph_add_hold(graph, scene->on_first, scene->other);
	OK(cuStreamUpdateCaptureDependencies(scene->stream, &node, 1,
					     CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	return cm_capture_end(scene->stream);
}

/* Its node goes where the kernels are found by nobody else. */
static CUgraph cloned_after_a_change(const struct cm_scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, changed_by_params(scene)));
	return clone;
}

/* The driver does not tell what the graph is made of. */
#define UNTOLD(name, query)                                                          \
	static CUgraph name(const struct cm_scene *scene)                            \
	{                                                                            \
		cm_capture_begin(scene->stream);                                     \
		cm_touch(scene->on_second, scene->stream, scene->own);               \
		OK(cuMemsetD8Async(scene->own, 1, 512, scene->stream));              \
		OK(cuMemcpyAsync(scene->own, scene->own + MIB, 512, scene->stream)); \
		CM_MUST(!cudasim_fail(query, 1, CUDA_ERROR_NOT_SUPPORTED));          \
		return cm_capture_end(scene->stream);                                \
	}
UNTOLD(untold_nodes, "cuGraphGetNodes")
UNTOLD(untold_types, "cuGraphNodeGetType")
UNTOLD(untold_copies, "cuGraphMemcpyNodeGetParams")
UNTOLD(untold_fills, "cuGraphMemsetNodeGetParams")

static CUgraph add_child(const struct cm_scene *scene)
{
	CUgraph graph = capture_on_second(scene), child = capture_on_first(scene);
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	return graph;
}

static CUgraph capture_more(const struct cm_scene *scene)
{
	CUgraph graph = capture_on_second(scene);
	CUstream stream;

	OK(cuCtxSetCurrent(scene->first));
	stream = cm_new_stream();
	OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	cm_touch(scene->on_first, stream, scene->other);
	return cm_capture_end(stream);
}

/* Device 1 reaches no memory of device 0 from now on: what it did before is known to be done. No
 * block is left in the cache. */
static void settle(const struct cm_scene *scene, const struct cm_api *api)
{
	int i;

	OK(cuCtxSetCurrent(scene->second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(scene->first));
	for (i = 0; i < 8; i++)
		OK(cuMemFree_v2(cm_get(CM_SCENE_BLOCK)));
	OK(cuCtxSynchronize());
	api->empty_cache();
}

/* As long as the graph is under way the block is nobody else's, and then it is again. */
static void hold_back_exec(struct cm_scene scene, CUgraphExec exec, const struct cm_api *api)
{
	CUdeviceptr next;

	settle(&scene, api);
	cm_flag = 0;
	OK(cuCtxSetCurrent(scene.second));
	cm_launch_hold(cm_load_hold(), scene.stream, scene.own, 512, &cm_flag);
	OK(cuGraphLaunch(exec, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	next = cm_get(CM_SCENE_BLOCK);
	CM_MUST(next != scene.other);
	cm_flag = 1;
	OK(cuCtxSetCurrent(scene.second));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(scene.own));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(next));
	next = cm_get(CM_SCENE_BLOCK);
	CM_MUST(next == scene.other);
	OK(cuMemFree_v2(next));
	OK(cuCtxSynchronize());
	api->empty_cache();
}

static void hold_back(cm_graph_maker *make, const struct cm_api *api)
{
	struct cm_scene scene = cm_scene_open();

	hold_back_exec(scene, cm_graph_instantiate(make(&scene)), api);
}

/* A fill of memory that is not the cache's is led to memory that is. */
CM_ROLE(updated)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 1, .width = 512, .height = 1};
	struct cm_scene scene = cm_scene_open();
	CUgraph graph = cm_graph_create();
	CUgraphExec exec;
	CUgraphNode node;
	struct cm_api api;

	cm_api_open(&api);
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemAllocAsync(&fill.dst, MIB, NULL));
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, scene.first));
	exec = cm_graph_instantiate(graph);
	fill.dst = scene.other;
	OK(cuGraphExecMemsetNodeSetParams(exec, node, &fill, scene.first));
	hold_back_exec(scene, exec, &api);
}

static void hold_all_back(cm_graph_maker *const *graphs)
{
	struct cm_api api;

	cm_api_open(&api);
	for (; *graphs; graphs++)
		hold_back(*graphs, &api);
}

CM_ROLE(reaching)
{
	static cm_graph_maker *const graphs[] = {
		capture_across,        capture_graph,  capture_copy,
		capture_on_first,      capture_word,   add_kernel,
		add_kernel_elsewhere,  add_in_first,   add_any_node,
		add_any_child,         add_into_child, add_into_moved_child,
		add_into_reborn_child, clone_any,      add_child,
		capture_more,          NULL,
	};

	hold_all_back(graphs);
}

CM_ROLE(changed)
{
	static cm_graph_maker *const graphs[] = {
		changed_by_params,    changed_by_params_2,   changed_by_params_of_any,
		changed_in_a_capture, cloned_after_a_change, NULL,
	};

	hold_all_back(graphs);
}

CM_ROLE(untold)
{
	static cm_graph_maker *const graphs[] = {
		untold_nodes, untold_types, untold_copies, untold_fills, NULL,
	};

	hold_all_back(graphs);
}

/* To let more wait than what is live (poll_policy.h). */
#define WITHOUT_ROOM "CUDASIM=devices:2,memory:6G"

CM_PLAY(a_graph_that_may_reach_a_block_holds_it_back, "reaching", "", WITHOUT_ROOM)
CM_PLAY(so_does_one_that_may_have_changed, "changed", "", WITHOUT_ROOM)
CM_PLAY(so_does_one_that_is_led_there_later, "updated", "", WITHOUT_ROOM)
CM_PLAY(so_does_one_of_which_the_driver_does_not_tell, "untold", "", WITHOUT_ROOM)
