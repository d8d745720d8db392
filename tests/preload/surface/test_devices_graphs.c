/* SPDX-License-Identifier: MIT */
/*
 * Graphs in a process with two devices: what is launched on device 1 holds back memory of device 0
 * if a node of the graph may reach that memory, and else does not.
 */
#include "tests/preload/api.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

#define BLOCK  (16 * MIB)
#define ROUNDS 300

/* Never ends, as far as the role is concerned. */
static volatile uint32_t flag;

struct scene {
	CUcontext first, second;
	CUdeviceptr own, other; /* of devices 1 and 0 */
	CUstream stream;        /* of device 1 */
	CUfunction on_first, on_second;
};

static struct scene open_scene(void)
{
	static const char text[] =
		"cudasim-module\nkernel touch\n params ptr\n writes p0 512\nend\n";
	struct scene scene = {.first = cm_open(0)};

	scene.on_first = cm_load(text, "touch");
	scene.other = cm_get(BLOCK);
	scene.second = cm_open(1);
	scene.on_second = cm_load(text, "touch");
	scene.own = cm_get(BLOCK);
	scene.stream = cm_new_stream();
	return scene;
}

static void touch(CUfunction function, CUstream stream, CUdeviceptr addr)
{
	void *params[] = {&addr};

	OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

static void begin(CUstream stream)
{
	OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
}

static CUgraph end(CUstream stream)
{
	CUgraph graph;

	OK(cuStreamEndCapture(stream, &graph));
	return graph;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* ---- graphs of device 1 alone ---- */

static void play(bool endless)
{
	struct scene scene = open_scene();
	CUgraphExec exec;
	uint64_t start;
	int i;

	begin(scene.stream);
	if (endless)
		cm_launch_hold(cm_load_hold(), scene.stream, scene.own, BLOCK, &flag);
	else
		OK(cuMemsetD8Async(scene.own, 1, BLOCK, scene.stream));
	exec = instantiate(end(scene.stream));
	for (i = 0; i < (endless ? 1 : ROUNDS); i++)
		OK(cuGraphLaunch(exec, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	cudasim_reset_counters();
	start = cudasim_now();
	for (i = 0; i < ROUNDS; i++) {
		scene.other = cm_get(BLOCK);
		OK(cuMemsetD8_v2(scene.other, 1, BLOCK));
		OK(cuMemFree_v2(scene.other));
	}
	CM_MUST(cudasim_calls("cuMemAlloc_v2") <= 20);
	CM_MUST(cudasim_peak_bytes(0) <= 64 * MIB);
	/* Natively each round waits for its fill. */
	CM_MUST(cudasim_now() - start < 300000000);
	CM_MUST(!endless || cuStreamQuery(scene.stream) == CUDA_ERROR_NOT_READY);
	flag = 1;
	OK(cuCtxSetCurrent(scene.second));
	OK(cuCtxSynchronize());
}

static void play_busy(void)
{
	play(false);
}

static void play_endless(void)
{
	play(true);
}

/* ---- graphs with a node that reaches memory of device 0 ---- */

/* A stream of device 0 takes part in the capture. */
static CUgraph capture_across(const struct scene *scene)
{
	CUstream stream;
	CUevent fork, join;

	OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
	OK(cuCtxSetCurrent(scene->first));
	OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
	stream = cm_new_stream();
	begin(scene->stream);
	OK(cuEventRecord(fork, scene->stream));
	OK(cuStreamWaitEvent(stream, fork, 0));
	touch(scene->on_first, stream, scene->other);
	OK(cuEventRecord(join, stream));
	OK(cuStreamWaitEvent_ptsz(scene->stream, join, 0));
	return end(scene->stream);
}

static CUgraph capture_on_first(const struct scene *scene)
{
	CUstream stream;

	OK(cuCtxSetCurrent(scene->first));
	stream = cm_new_stream();
	begin(stream);
	touch(scene->on_first, stream, scene->other);
	return end(stream);
}

/* A graph of device 0 is launched in a capture on device 1. */
static CUgraph capture_graph(const struct scene *scene)
{
	CUgraphExec exec = instantiate(capture_on_first(scene));

	begin(scene->stream);
	touch(scene->on_second, scene->stream, scene->own);
	OK(cuGraphLaunch(exec, scene->stream));
	return end(scene->stream);
}

static CUgraph capture_copy(const struct scene *scene)
{
	begin(scene->stream);
	OK(cuMemcpyAsync(scene->own, scene->other, 512, scene->stream));
	return end(scene->stream);
}

static CUgraph capture_on_second(const struct scene *scene)
{
	begin(scene->stream);
	touch(scene->on_second, scene->stream, scene->own);
	return end(scene->stream);
}

static CUgraph add_kernel(const struct scene *scene)
{
	CUdeviceptr addr = scene->other;
	void *params[] = {&addr};
	const CUDA_KERNEL_NODE_PARAMS_v2 kernel = {
		.func = scene->on_first,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params,
	};
	CUgraph graph = capture_on_second(scene);
	CUgraphNode node;

	OK(cuCtxSetCurrent(scene->first));
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &kernel));
	return graph;
}

static CUgraph capture_word(const struct scene *scene)
{
	begin(scene->stream);
	OK(cuStreamWriteValue32(scene->stream, scene->own, 1, 0));
	return end(scene->stream);
}

/* After such a call no graph is known, as it may be any graph that has changed. */
#define CHANGED_BY(name, call)                            \
	static CUgraph name(const struct scene *scene)    \
	{                                                 \
		CUgraph graph = capture_on_second(scene); \
                                                          \
		OK(call);                                 \
		return graph;                             \
	}
CHANGED_BY(changed_by_kernel, cuGraphAddKernelNode(NULL, graph, NULL, 0, NULL))
CHANGED_BY(changed_by_node, cuGraphAddNode(NULL, graph, NULL, 0, NULL))
CHANGED_BY(changed_by_node_2, cuGraphAddNode_v2(NULL, graph, NULL, NULL, 0, NULL))
CHANGED_BY(changed_by_params, cuGraphKernelNodeSetParams(NULL, NULL))
CHANGED_BY(changed_by_params_2, cuGraphKernelNodeSetParams_v2(NULL, NULL))
CHANGED_BY(changed_by_params_of_any, cuGraphNodeSetParams(NULL, NULL))
CHANGED_BY(changed_by_clone, cuGraphClone(&graph, graph))

/* The driver does not tell what the graph is made of. */
#define UNTOLD(name, query)                                                          \
	static CUgraph name(const struct scene *scene)                               \
	{                                                                            \
		begin(scene->stream);                                                \
		touch(scene->on_second, scene->stream, scene->own);                  \
		OK(cuMemsetD8Async(scene->own, 1, 512, scene->stream));              \
		OK(cuMemcpyAsync(scene->own, scene->own + MIB, 512, scene->stream)); \
		CM_MUST(!cudasim_fail(query, 1, CUDA_ERROR_NOT_SUPPORTED));          \
		return end(scene->stream);                                           \
	}
UNTOLD(untold_nodes, "cuGraphGetNodes")
UNTOLD(untold_types, "cuGraphNodeGetType")
UNTOLD(untold_copies, "cuGraphMemcpyNodeGetParams")
UNTOLD(untold_fills, "cuGraphMemsetNodeGetParams")

static CUgraph add_child(const struct scene *scene)
{
	CUgraph graph = capture_on_second(scene), child = capture_on_first(scene);
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, child));
	return graph;
}

static CUgraph capture_more(const struct scene *scene)
{
	CUgraph graph = capture_on_second(scene);
	CUstream stream;

	OK(cuCtxSetCurrent(scene->first));
	stream = cm_new_stream();
	OK(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	touch(scene->on_first, stream, scene->other);
	return end(stream);
}

/* Device 1 reaches no memory of device 0 from now on: what it did before is known to be done. No
 * block is left in the cache. */
static void settle(const struct scene *scene, const struct cm_api *api)
{
	int i;

	OK(cuCtxSetCurrent(scene->second));
	OK(cuCtxSynchronize());
	OK(cuCtxSetCurrent(scene->first));
	for (i = 0; i < 8; i++)
		OK(cuMemFree_v2(cm_get(BLOCK)));
	OK(cuCtxSynchronize());
	api->empty_cache();
}

/* As long as the graph is under way the block is nobody else's, and then it is again. */
static void hold_back(CUgraph (*make)(const struct scene *scene), const struct cm_api *api)
{
	struct scene scene = open_scene();
	CUgraphExec exec = instantiate(make(&scene));
	CUdeviceptr next;

	settle(&scene, api);
	flag = 0;
	OK(cuCtxSetCurrent(scene.second));
	cm_launch_hold(cm_load_hold(), scene.stream, scene.own, 512, &flag);
	OK(cuGraphLaunch(exec, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	next = cm_get(BLOCK);
	CM_MUST(next != scene.other);
	flag = 1;
	OK(cuCtxSetCurrent(scene.second));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(scene.own));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuCtxSynchronize());
	OK(cuMemFree_v2(next));
	next = cm_get(BLOCK);
	CM_MUST(next == scene.other);
	OK(cuMemFree_v2(next));
}

static void hold_all_back(CUgraph (*const *graphs)(const struct scene *scene))
{
	struct cm_api api;

	cm_api_open(&api);
	for (; *graphs; graphs++) {
		hold_back(*graphs, &api);
		OK(cuCtxSynchronize());
		api.empty_cache();
	}
}

static void play_reaching(void)
{
	static CUgraph (*const graphs[])(const struct scene *scene) = {
		capture_across,   capture_graph, capture_copy,
		capture_on_first, capture_word,  add_kernel,
		add_child,        capture_more,  NULL,
	};

	hold_all_back(graphs);
}

static void play_changed(void)
{
	static CUgraph (*const graphs[])(const struct scene *scene) = {
		changed_by_kernel,   changed_by_node,          changed_by_node_2, changed_by_params,
		changed_by_params_2, changed_by_params_of_any, changed_by_clone,  NULL,
	};

	hold_all_back(graphs);
}

static void play_untold(void)
{
	static CUgraph (*const graphs[])(const struct scene *scene) = {
		untold_nodes, untold_types, untold_copies, untold_fills, NULL,
	};

	hold_all_back(graphs);
}

static const struct cm_role roles[] = {
	{"busy", play_busy},       {"endless", play_endless}, {"reaching", play_reaching},
	{"changed", play_changed}, {"untold", play_untold},   {NULL, NULL},
};

#define PLAN "CUDASIM=devices:2,memory:16G"
/* To let more wait than what is live (poll_policy.h). */
#define WITHOUT_ROOM "CUDASIM=devices:2,memory:6G"

CM_PLAY(a_graph_holds_up_no_other_device, "busy", "", PLAN)
CM_PLAY(nor_does_one_that_never_ends, "endless", "", PLAN)
CM_PLAY(nor_does_one_under_12_4, "busy", "", PLAN ",version:12040")
CM_PLAY(nor_does_one_that_never_ends_under_12_4, "endless", "", PLAN ",version:12040")
CM_PLAY(a_graph_that_may_reach_a_block_holds_it_back, "reaching", "", WITHOUT_ROOM)
CM_PLAY(so_does_one_that_may_have_changed, "changed", "", WITHOUT_ROOM)
CM_PLAY(so_does_one_of_which_the_driver_does_not_tell, "untold", "", WITHOUT_ROOM)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CM_PLAY_TEST(a_graph_holds_up_no_other_device),
		CM_PLAY_TEST(nor_does_one_that_never_ends),
		CM_PLAY_TEST(nor_does_one_under_12_4),
		CM_PLAY_TEST(nor_does_one_that_never_ends_under_12_4),
		CM_PLAY_TEST(a_graph_that_may_reach_a_block_holds_it_back),
		CM_PLAY_TEST(so_does_one_that_may_have_changed),
		CM_PLAY_TEST(so_does_one_of_which_the_driver_does_not_tell),
	};

	cm_rerun_role(argc, argv, roles);
	return cmocka_run_group_tests_name("surface_devices_graphs", tests, NULL, NULL);
}
