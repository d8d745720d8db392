/* SPDX-License-Identifier: MIT */
/*
 * What graphs order, as the checker sees it: their edges, their launches, and nothing else.
 */
#include "tests/sim/checker_scene.h"

static CUgraphNode add_touch(CUgraph graph, const struct scene *scene, CUdeviceptr addr,
			     const CUgraphNode *before, size_t count)
{
	uint64_t bytes = BLOCK;
	void *params[] = {&addr, &bytes};
	CUDA_KERNEL_NODE_PARAMS node_params = {
		.func = scene->touch,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params,
	};
	CUgraphNode node;

	assert_ok(cuGraphAddKernelNode(&node, graph, before, count, &node_params));
	return node;
}

static CUgraphExec instantiate(CUgraph graph)
{
	CUgraphExec exec;

	assert_ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	return exec;
}

/* Two branches: one touches the block, the other what lies behind it, and a node after the
 * latter. */
static CUgraphExec make_branches(const struct scene *scene)
{
	CUgraphNode other;
	CUgraph graph;

	assert_ok(cuGraphCreate(&graph, 0));
	(void)add_touch(graph, scene, scene->block, NULL, 0);
	other = add_touch(graph, scene, scene->block + 2 * BLOCK, NULL, 0);
	(void)add_touch(graph, scene, scene->block + 2 * BLOCK, &other, 1);
	return instantiate(graph);
}

in_scene(launch_in_a_stream_is_ordered)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	assert_ok(cuGraphLaunch(exec, scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	allocate(scene);
	work(scene->touch, scene->old, scene->block);
	expect_found(0);
}

in_scene(launch_comes_after_its_stream)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuGraphLaunch(exec, scene->old));
	expect_found(0);
}

in_scene(launch_does_not_come_after_other_streams)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuGraphLaunch(exec, scene->new));
	expect_found(1);
}

in_scene(work_does_not_come_after_launches_elsewhere)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	assert_ok(cuGraphLaunch(exec, scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	use_as_new(scene);
	expect_found(1);
}

in_scene(event_has_all_branches)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	cudasim_allocated(at(scene->block + 2 * BLOCK), BLOCK, 0);
	assert_ok(cuGraphLaunch(exec, scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	assert_int_equal(cudasim_freed(at(scene->block + 2 * BLOCK)), 1);
	record_and_wait(scene);
	use_as_new(scene);
	cudasim_allocated(at(scene->block + 2 * BLOCK), BLOCK, 0);
	work(scene->touch, scene->new, scene->block + 2 * BLOCK);
	expect_found(0);
}

in_scene(launches_of_one_executable_are_ordered)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	assert_ok(cuGraphLaunch(exec, scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	allocate(scene);
	assert_ok(cuGraphLaunch(exec, scene->new));
	expect_found(0);
}

in_scene(launches_of_two_executables_are_not)
{
	struct scene *scene = *state;

	assert_ok(cuGraphLaunch(make_branches(scene), scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	allocate(scene);
	assert_ok(cuGraphLaunch(make_branches(scene), scene->new));
	expect_found(1);
}

/* An event recorded by a node has what is before the node, and not the other branch. */
static CUgraphExec make_recording(const struct scene *scene, bool after_touch)
{
	CUgraphNode touch;
	CUgraphNode node;
	CUgraph graph;

	assert_ok(cuGraphCreate(&graph, 0));
	touch = add_touch(graph, scene, scene->block, NULL, 0);
	assert_ok(cuGraphAddEventRecordNode(&node, graph, &touch, after_touch, scene->event));
	return instantiate(graph);
}

in_scene(event_node_has_what_is_before_it)
{
	struct scene *scene = *state;

	assert_ok(cuGraphLaunch(make_recording(scene, true), scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	wait(scene);
	use_as_new(scene);
	expect_found(0);
}

in_scene(event_node_has_no_other_branch)
{
	struct scene *scene = *state;

	assert_ok(cuGraphLaunch(make_recording(scene, false), scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	wait(scene);
	use_as_new(scene);
	expect_found(1);
}

/* Two nodes after one: the event is recorded behind the second, which is not after the first. */
in_scene(event_node_has_no_sibling)
{
	struct scene *scene = *state;
	CUdeviceptr behind = scene->block + 2 * BLOCK;
	CUgraphNode root;
	CUgraphNode second;
	CUgraphNode node;
	CUgraph graph;

	cudasim_allocated(at(behind), BLOCK, 0);
	assert_ok(cuGraphCreate(&graph, 0));
	root = add_touch(graph, scene, behind, NULL, 0);
	(void)add_touch(graph, scene, scene->block, &root, 1);
	second = add_touch(graph, scene, behind, &root, 1);
	assert_ok(cuGraphAddEventRecordNode(&node, graph, &second, 1, scene->event));
	assert_ok(cuGraphLaunch(instantiate(graph), scene->old));
	assert_int_equal(cudasim_freed(at(scene->block)), 1);
	wait(scene);
	use_as_new(scene);
	expect_found(1);
}

static CUgraphExec make_waiting(const struct scene *scene, bool before_touch)
{
	CUgraphNode node;
	CUgraph graph;

	assert_ok(cuGraphCreate(&graph, 0));
	assert_ok(cuGraphAddEventWaitNode(&node, graph, NULL, 0, scene->event));
	(void)add_touch(graph, scene, scene->block, &node, before_touch);
	return instantiate(graph);
}

in_scene(wait_node_orders_what_is_after_it)
{
	struct scene *scene = *state;

	use_and_free(scene);
	record(scene);
	allocate(scene);
	assert_ok(cuGraphLaunch(make_waiting(scene, true), scene->new));
	expect_found(0);
}

in_scene(wait_node_orders_no_other_branch)
{
	struct scene *scene = *state;

	use_and_free(scene);
	record(scene);
	allocate(scene);
	assert_ok(cuGraphLaunch(make_waiting(scene, false), scene->new));
	expect_found(1);
}

/* Captured work is none until it is launched. */
in_scene(capture_is_not_work)
{
	struct scene *scene = *state;
	CUgraph graph;

	use_and_free(scene);
	allocate(scene);
	assert_ok(cuStreamBeginCapture(scene->new, CU_STREAM_CAPTURE_MODE_RELAXED));
	work(scene->touch, scene->new, scene->block);
	assert_ok(cuStreamEndCapture(scene->new, &graph));
	expect_found(0);
	assert_ok(cuGraphLaunch(instantiate(graph), scene->new));
	expect_found(1);
}

/* Memory of a graph that is gone stays until its launch has ended. */
in_scene(memory_of_a_graph_outlives_its_launch)
{
	struct scene *scene = *state;
	CUDA_MEM_ALLOC_NODE_PARAMS params = {.bytesize = 4 * MIB};
	CUgraphExec exec;
	CUgraphNode node;
	CUgraph graph;
	uint64_t used;
	CUdeviceptr again;

	params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	assert_ok(cuGraphCreate(&graph, 0));
	assert_ok(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &params));
	(void)add_touch(graph, scene, params.dptr, &node, 1);
	exec = instantiate(graph);
	assert_ok(cuGraphLaunch(exec, scene->old));
	used = cudasim_used_bytes(0);
	assert_ok(cuGraphExecDestroy(exec));
	assert_ok(cuGraphDestroy(graph));
	assert_int_equal(cudasim_used_bytes(0), used);
	cudasim_complete_all();
	assert_int_equal(cudasim_used_bytes(0), used - 4 * MIB);
	assert_ok(cuMemAlloc(&again, 4 * MIB));
	assert_int_equal(again, params.dptr);
	work(scene->touch, scene->new, again);
	assert_ok(cuCtxSynchronize());
	expect_found(0);
}

/* A barrier holds launches, too. */
in_scene(barrier_holds_graphs)
{
	struct scene *scene = *state;
	CUgraphExec exec = make_branches(scene);

	use_and_free(scene);
	ctx_record_and_wait(scene);
	allocate(scene);
	assert_ok(cuGraphLaunch(exec, scene->new));
	expect_found(0);
}
