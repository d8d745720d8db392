/* SPDX-License-Identifier: MIT */
/*
 * Graphs in a process with two devices: what is launched on device 1, and reaches memory of that
 * device alone, holds back no memory of device 0.
 */
#include "tests/preload/surface/graphs.h"
#include "tests/unit/cmocka_all.h"

#define ROUNDS 300
#define FEW    40

static CUgraph capture_fill(const struct cm_scene *scene)
{
	cm_capture_begin(scene->stream);
	OK(cuMemsetD8Async(scene->own, 1, CM_SCENE_BLOCK, scene->stream));
	return cm_capture_end(scene->stream);
}

static CUgraph add_own_kernel(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();
	CUgraphNode node;
	struct cm_held_kernel kernel;

	cm_hold_fill_in(&kernel, scene->own);
	OK(cuGraphAddKernelNode_v2(
		&node, graph, NULL, 0,
		&(CUDA_KERNEL_NODE_PARAMS_v2){CM_HOLD_PARAMS(cm_load_hold(), &kernel)}));
	return graph;
}

static CUgraph add_own_kernel_1(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();
	CUgraphNode node;
	struct cm_held_kernel kernel;

	cm_hold_fill_in(&kernel, scene->own);
	OK(cuGraphAddKernelNode(
		&node, graph, NULL, 0,
		&(CUDA_KERNEL_NODE_PARAMS_v1){CM_HOLD_PARAMS(cm_load_hold(), &kernel)}));
	return graph;
}

static CUgraph add_in_current(const struct cm_scene *scene)
{
	return cm_graph_hold_in(NULL, scene->own);
}

static CUgraph add_in_second(const struct cm_scene *scene)
{
	CUgraph graph;

	OK(cuCtxSetCurrent(scene->first));
	graph = cm_graph_hold_in(scene->second, scene->own);
	OK(cuCtxSetCurrent(scene->second));
	return graph;
}

/* A function of a library. */
static CUgraph add_of_library(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();
	CUfunction function;
	CUgraphNode node;
	struct cm_held_kernel kernel;

	cm_hold_fill_in(&kernel, scene->own);
	OK(cuKernelGetFunction(&function, cm_load_hold_kernel()));
	OK(cuGraphAddKernelNode_v2(
		&node, graph, NULL, 0,
		&(CUDA_KERNEL_NODE_PARAMS_v2){CM_HOLD_PARAMS(function, &kernel)}));
	return graph;
}

static CUgraph add_own_node(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();

	(void)cm_graph_add_hold(graph, cm_load_hold(), scene->own);
	return graph;
}

static CUgraph clone_own(const struct cm_scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, add_own_kernel(scene)));
	return clone;
}

static CUgraph add_own_child(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, add_own_kernel(scene)));
	return graph;
}

static CUgraph capture_own_to(const struct cm_scene *scene)
{
	CUgraph graph = cm_graph_create();

	OK(cuStreamBeginCaptureToGraph(scene->stream, graph, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &cm_flag);
	return cm_capture_end(scene->stream);
}

static CUgraph capture_hold(const struct cm_scene *scene)
{
	cm_capture_begin(scene->stream);
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &cm_flag);
	return cm_capture_end(scene->stream);
}

/* Another graph of another device, made meanwhile, says nothing of this one. */
static CUgraph beside_another(const struct cm_scene *scene)
{
	CUgraph graph = add_own_kernel(scene), other = cm_graph_create();

	OK(cuCtxSetCurrent(scene->first));
	(void)cm_graph_add_hold(other, scene->on_first, scene->other);
	OK(cuCtxSetCurrent(scene->second));
	return graph;
}

/* Copies between memory of other kinds, all of device 1. */
static CUgraph copy_outside_the_cache(const struct cm_scene *scene)
{
	CUdeviceptr pooled, managed;

	OK(cuMemAllocAsync(&pooled, MIB, scene->stream));
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuStreamSynchronize(scene->stream));
	cm_capture_begin(scene->stream);
	OK(cuMemcpyAsync(managed, pooled, 512, scene->stream));
	OK(cuMemsetD8Async(pooled, 1, 512, scene->stream));
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &cm_flag);
	return cm_capture_end(scene->stream);
}

static void hold_nothing_up(cm_graph_maker *make, bool endless)
{
	struct cm_scene scene = cm_scene_open();
	CUgraphExec exec = cm_graph_instantiate(make(&scene));
	const int rounds = endless ? FEW : ROUNDS;
	uint64_t start;
	int i;

	cm_flag = 0;
	for (i = 0; i < (endless ? 1 : rounds); i++)
		OK(cuGraphLaunch(exec, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	cudasim_reset_counters();
	start = cudasim_now();
	for (i = 0; i < rounds; i++) {
		scene.other = cm_get(CM_SCENE_BLOCK);
		OK(cuMemsetD8_v2(scene.other, 1, CM_SCENE_BLOCK));
		OK(cuMemFree_v2(scene.other));
	}
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 20);
	CM_MUST(cudasim_peak_bytes(0) <= 64 * MIB);
	/* Natively each round waits for its fill. */
	CM_MUST(cudasim_now() - start < 300000000);
	CM_MUST(!endless || cuStreamQuery(scene.stream) == CUDA_ERROR_NOT_READY);
	cm_flag = 1;
	OK(cuCtxSetCurrent(scene.second));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(scene.own));
}

CM_ROLE(busy)
{
	hold_nothing_up(capture_fill, false);
}

CM_ROLE(endless)
{
	static cm_graph_maker *const makers[] = {
		capture_hold,  add_own_kernel, add_own_kernel_1, add_in_current,
		add_in_second, add_of_library, add_own_node,     clone_own,
		add_own_child, capture_own_to, beside_another,   copy_outside_the_cache,
	};
	size_t i;

	for (i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		hold_nothing_up(makers[i], true);
}

#define PLAN "CUDASIM=devices:2,memory:16G"

CM_PLAY(a_graph_holds_up_no_other_device, "busy", "", PLAN)
CM_PLAY(nor_does_one_that_never_ends, "endless", "", PLAN)
CM_PLAY(nor_does_one_under_12_4, "busy", "", PLAN ",version:12040")
CM_PLAY(nor_does_one_that_never_ends_under_12_4, "endless", "", PLAN ",version:12040")
