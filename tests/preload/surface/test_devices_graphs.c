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
#define FEW    40

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

/* How a graph is made: on a stream of device 1, with a node that works on a block of it. */
typedef CUgraph maker(const struct scene *scene);

static CUgraph capture_fill(const struct scene *scene)
{
	begin(scene->stream);
	OK(cuMemsetD8Async(scene->own, 1, BLOCK, scene->stream));
	return end(scene->stream);
}

static CUgraph create(void)
{
	CUgraph graph;

	OK(cuGraphCreate(&graph, 0));
	return graph;
}

/* A kernel that runs until the flag is set. */
struct kernel {
	CUdeviceptr addr;
	uint64_t bytes;
	const volatile uint32_t *flag;
	void *params[3];
};

static void fill_in(struct kernel *kernel, CUdeviceptr addr)
{
	*kernel = (struct kernel){.addr = addr, .bytes = 512, .flag = &flag};
	kernel->params[0] = &kernel->addr;
	kernel->params[1] = &kernel->bytes;
	kernel->params[2] = &kernel->flag;
}

/* The fields that all versions of the structure have. */
#define KERNEL_OF(function, kernel)                                                      \
	.func = (function), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, \
	.blockDimY = 1, .blockDimZ = 1, .kernelParams = (kernel)->params

static CUgraph add_own_kernel(const struct scene *scene)
{
	CUgraph graph = create();
	CUgraphNode node;
	struct kernel kernel;

	fill_in(&kernel, scene->own);
	OK(cuGraphAddKernelNode_v2(
		&node, graph, NULL, 0,
		&(CUDA_KERNEL_NODE_PARAMS_v2){KERNEL_OF(cm_load_hold(), &kernel)}));
	return graph;
}

static CUgraph add_own_kernel_1(const struct scene *scene)
{
	CUgraph graph = create();
	CUgraphNode node;
	struct kernel kernel;

	fill_in(&kernel, scene->own);
	OK(cuGraphAddKernelNode(&node, graph, NULL, 0,
				&(CUDA_KERNEL_NODE_PARAMS_v1){KERNEL_OF(cm_load_hold(), &kernel)}));
	return graph;
}

static CUkernel load_kernel(void)
{
	static const char text[] = "cudasim-module\nkernel hold\n params ptr u64 ptr\n"
				   " writes p0 p1\n until p2\nend\n";
	CUlibrary library;
	CUkernel kernel;

	OK(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
	OK(cuLibraryGetKernel(&kernel, library, "hold"));
	return kernel;
}

static CUgraph add_in_context(CUcontext ctx, CUdeviceptr addr)
{
	CUgraph graph = create();
	CUgraphNode node;
	struct kernel kernel;

	fill_in(&kernel, addr);
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0,
				   &(CUDA_KERNEL_NODE_PARAMS_v2){KERNEL_OF(NULL, &kernel),
								 .kern = load_kernel(),
								 .ctx = ctx}));
	return graph;
}

static CUgraph add_in_current(const struct scene *scene)
{
	return add_in_context(NULL, scene->own);
}

static CUgraph add_in_second(const struct scene *scene)
{
	CUgraph graph;

	OK(cuCtxSetCurrent(scene->first));
	graph = add_in_context(scene->second, scene->own);
	OK(cuCtxSetCurrent(scene->second));
	return graph;
}

/* A function of a library. */
static CUgraph add_of_library(const struct scene *scene)
{
	CUgraph graph = create();
	CUfunction function;
	CUgraphNode node;
	struct kernel kernel;

	fill_in(&kernel, scene->own);
	OK(cuKernelGetFunction(&function, load_kernel()));
	OK(cuGraphAddKernelNode_v2(&node, graph, NULL, 0,
				   &(CUDA_KERNEL_NODE_PARAMS_v2){KERNEL_OF(function, &kernel)}));
	return graph;
}

static CUgraphNode add_node(CUgraph graph, CUfunction function, CUdeviceptr addr)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUgraphNode node;
	struct kernel kernel;

	fill_in(&kernel, addr);
	params.kernel.func = function;
	params.kernel.gridDimX = params.kernel.gridDimY = params.kernel.gridDimZ = 1;
	params.kernel.blockDimX = params.kernel.blockDimY = params.kernel.blockDimZ = 1;
	params.kernel.kernelParams = kernel.params;
	OK(cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params));
	return node;
}

static CUgraph add_own_node(const struct scene *scene)
{
	CUgraph graph = create();

	(void)add_node(graph, cm_load_hold(), scene->own);
	return graph;
}

static CUgraph clone_own(const struct scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, add_own_kernel(scene)));
	return clone;
}

static CUgraph add_own_child(const struct scene *scene)
{
	CUgraph graph = create();
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, add_own_kernel(scene)));
	return graph;
}

static CUgraph capture_own_to(const struct scene *scene)
{
	CUgraph graph = create();

	OK(cuStreamBeginCaptureToGraph(scene->stream, graph, NULL, NULL, 0,
				       CU_STREAM_CAPTURE_MODE_RELAXED));
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &flag);
	return end(scene->stream);
}

static CUgraph capture_hold(const struct scene *scene)
{
	begin(scene->stream);
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &flag);
	return end(scene->stream);
}

/* Another graph of another device, made meanwhile, says nothing of this one. */
static CUgraph beside_another(const struct scene *scene)
{
	CUgraph graph = add_own_kernel(scene), other = create();

	OK(cuCtxSetCurrent(scene->first));
	(void)add_node(other, scene->on_first, scene->other);
	OK(cuCtxSetCurrent(scene->second));
	return graph;
}

/* Copies between memory of other kinds, all of device 1. */
static CUgraph copy_outside_the_cache(const struct scene *scene)
{
	CUdeviceptr pooled, managed;

	OK(cuMemAllocAsync(&pooled, MIB, scene->stream));
	OK(cuMemAllocManaged(&managed, MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuStreamSynchronize(scene->stream));
	begin(scene->stream);
	OK(cuMemcpyAsync(managed, pooled, 512, scene->stream));
	OK(cuMemsetD8Async(pooled, 1, 512, scene->stream));
	cm_launch_hold(cm_load_hold(), scene->stream, scene->own, 512, &flag);
	return end(scene->stream);
}

static void hold_nothing_up(maker *make, bool endless)
{
	struct scene scene = open_scene();
	CUgraphExec exec = instantiate(make(&scene));
	const int rounds = endless ? FEW : ROUNDS;
	uint64_t start;
	int i;

	flag = 0;
	for (i = 0; i < (endless ? 1 : rounds); i++)
		OK(cuGraphLaunch(exec, scene.stream));
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemFree_v2(scene.other));
	cudasim_reset_counters();
	start = cudasim_now();
	for (i = 0; i < rounds; i++) {
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
	OK(cuMemFree_v2(scene.own));
}

static void play_busy(void)
{
	hold_nothing_up(capture_fill, false);
}

static void play_endless(void)
{
	static maker *const makers[] = {
		capture_hold,  add_own_kernel, add_own_kernel_1, add_in_current,
		add_in_second, add_of_library, add_own_node,     clone_own,
		add_own_child, capture_own_to, beside_another,   copy_outside_the_cache,
	};
	size_t i;

	for (i = 0; i < sizeof(makers) / sizeof(makers[0]); i++)
		hold_nothing_up(makers[i], true);
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

/* The kernels of these are of the type that touch() launches. */
#define TOUCH_OF(function, params)                                                       \
	.func = (function), .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, \
	.blockDimY = 1, .blockDimZ = 1, .kernelParams = (params)

static CUgraph add_kernel(const struct scene *scene)
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
static CUgraph add_kernel_elsewhere(const struct scene *scene)
{
	CUdeviceptr addr = scene->other;
	void *params[] = {&addr};
	CUgraph graph = create();
	CUgraphNode node;

	OK(cuGraphAddKernelNode(&node, graph, NULL, 0,
				&(CUDA_KERNEL_NODE_PARAMS_v1){TOUCH_OF(scene->on_first, params)}));
	return graph;
}

static CUgraph add_in_first(const struct scene *scene)
{
	return add_in_context(scene->first, scene->other);
}

static CUgraph add_any_node(const struct scene *scene)
{
	CUgraph graph = create();

	(void)add_node(graph, cm_load_hold(), scene->own);
	OK(cuCtxSetCurrent(scene->first));
	(void)add_node(graph, cm_load_hold(), scene->other);
	return graph;
}

static CUgraph add_any_child(const struct scene *scene)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	CUgraph graph = create();
	CUgraphNode node;

	params.graph.graph = add_kernel(scene);
	OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
	return graph;
}

/* The graph inside a node, which no call has made, gets the kernel. */
static CUgraph add_into_child(const struct scene *scene)
{
	CUgraph graph = create(), child;
	CUgraphNode node;

	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, capture_on_second(scene)));
	OK(cuGraphChildGraphNodeGetGraph(node, &child));
	(void)add_node(child, scene->on_first, scene->other);
	return graph;
}

/* The graph itself is the one inside the node from now on. */
static CUgraph add_into_moved_child(const struct scene *scene)
{
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
	CUgraph graph = create();
	CUgraphNode node;

	params.graph.graph = capture_on_second(scene);
	params.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
	OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
	(void)add_node(params.graph.graph, scene->on_first, scene->other);
	return graph;
}

/* And its handle is that of a graph that was destroyed. */
static CUgraph add_into_reborn_child(const struct scene *scene)
{
	CUgraph graph = create(), old, child, inner = capture_on_second(scene);
	CUgraphNode node;

	old = create();
	OK(cuGraphDestroy(old));
	OK(cuGraphAddChildGraphNode(&node, graph, NULL, 0, inner));
	OK(cuGraphChildGraphNodeGetGraph(node, &child));
	CM_MUST(child == old);
	(void)add_node(child, scene->on_first, scene->other);
	return graph;
}

static CUgraph clone_any(const struct scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, add_kernel(scene)));
	return clone;
}

static CUgraph capture_word(const struct scene *scene)
{
	begin(scene->stream);
	OK(cuStreamWriteValue32(scene->stream, scene->own, 1, 0));
	return end(scene->stream);
}

/* A call replaces the kernel of a node, and does not say of which graph it is. */
#define CHANGED_BY(name, symbol, type)                                          \
	static CUgraph name(const struct scene *scene)                          \
	{                                                                       \
		CUgraph graph = create();                                       \
		CUgraphNode node = add_node(graph, cm_load_hold(), scene->own); \
		CUdeviceptr addr = scene->other;                                \
		void *params[] = {&addr};                                       \
                                                                                \
		OK(symbol(node, &(type){TOUCH_OF(scene->on_first, params)}));   \
		return graph;                                                   \
	}
CHANGED_BY(changed_by_params, cuGraphKernelNodeSetParams, CUDA_KERNEL_NODE_PARAMS_v1)
CHANGED_BY(changed_by_params_2, cuGraphKernelNodeSetParams_v2, CUDA_KERNEL_NODE_PARAMS_v2)

static CUgraph changed_by_params_of_any(const struct scene *scene)
{
	CUgraph graph = create();
	CUgraphNode node = add_node(graph, cm_load_hold(), scene->own);
	CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
	CUdeviceptr addr = scene->other;
	void *list[] = {&addr};

	params.kernel = (CUDA_KERNEL_NODE_PARAMS_v3){TOUCH_OF(scene->on_first, list)};
	OK(cuGraphNodeSetParams(node, &params));
	return graph;
}

/* The graph is reached while the capture makes it. */
static CUgraph changed_in_a_capture(const struct scene *scene)
{
	CUstreamCaptureStatus status;
	CUgraph graph;
	CUgraphNode node;

	begin(scene->stream);
	touch(scene->on_second, scene->stream, scene->own);
	OK(cuStreamGetCaptureInfo_v2(scene->stream, &status, NULL, &graph, NULL, NULL));
	node = add_node(graph, scene->on_first, scene->other);
	OK(cuStreamUpdateCaptureDependencies(scene->stream, &node, 1,
					     CU_STREAM_ADD_CAPTURE_DEPENDENCIES));
	return end(scene->stream);
}

/* Its node goes where the kernels are found by nobody else. */
static CUgraph cloned_after_a_change(const struct scene *scene)
{
	CUgraph clone;

	OK(cuGraphClone(&clone, changed_by_params(scene)));
	return clone;
}

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
static void hold_back_exec(struct scene scene, CUgraphExec exec, const struct cm_api *api)
{
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
	OK(cuCtxSynchronize());
	api->empty_cache();
}

static void hold_back(maker *make, const struct cm_api *api)
{
	struct scene scene = open_scene();

	hold_back_exec(scene, instantiate(make(&scene)), api);
}

/* A fill of memory that is not the cache's is led to memory that is. */
static void play_updated(void)
{
	CUDA_MEMSET_NODE_PARAMS fill = {.elementSize = 1, .width = 512, .height = 1};
	struct scene scene = open_scene();
	CUgraph graph = create();
	CUgraphExec exec;
	CUgraphNode node;
	struct cm_api api;

	cm_api_open(&api);
	OK(cuCtxSetCurrent(scene.first));
	OK(cuMemAllocAsync(&fill.dst, MIB, NULL));
	OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, scene.first));
	exec = instantiate(graph);
	fill.dst = scene.other;
	OK(cuGraphExecMemsetNodeSetParams(exec, node, &fill, scene.first));
	hold_back_exec(scene, exec, &api);
}

static void hold_all_back(maker *const *graphs)
{
	struct cm_api api;

	cm_api_open(&api);
	for (; *graphs; graphs++)
		hold_back(*graphs, &api);
}

static void play_reaching(void)
{
	static maker *const graphs[] = {
		capture_across,        capture_graph,  capture_copy,
		capture_on_first,      capture_word,   add_kernel,
		add_kernel_elsewhere,  add_in_first,   add_any_node,
		add_any_child,         add_into_child, add_into_moved_child,
		add_into_reborn_child, clone_any,      add_child,
		capture_more,          NULL,
	};

	hold_all_back(graphs);
}

static void play_changed(void)
{
	static maker *const graphs[] = {
		changed_by_params,    changed_by_params_2,   changed_by_params_of_any,
		changed_in_a_capture, cloned_after_a_change, NULL,
	};

	hold_all_back(graphs);
}

static void play_untold(void)
{
	static maker *const graphs[] = {
		untold_nodes, untold_types, untold_copies, untold_fills, NULL,
	};

	hold_all_back(graphs);
}

static const struct cm_role roles[] = {
	{"busy", play_busy},
	{"endless", play_endless},
	{"reaching", play_reaching},
	{"changed", play_changed},
	{"untold", play_untold},
	{"updated", play_updated},
	{NULL, NULL},
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
CM_PLAY(so_does_one_that_is_led_there_later, "updated", "", WITHOUT_ROOM)
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
		CM_PLAY_TEST(so_does_one_that_is_led_there_later),
		CM_PLAY_TEST(so_does_one_of_which_the_driver_does_not_tell),
	};

	cm_rerun_role(argc, argv, roles);
	return cmocka_run_group_tests_name("surface_devices_graphs", tests, NULL, NULL);
}
