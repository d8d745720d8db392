/* SPDX-License-Identifier: MIT */
#include "interpose/driver/graph_work.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#include "interpose/driver/host_memory_ends.h"
#include "interpose/driver/host_work.h"

#define DEPTH_MAX 16      /* graphs in graphs */
#define NODES_MAX 1000000 /* of one graph that is walked */
#define KNOWN_MAX 1024    /* a power of two */

/* Executable graphs whose work stays on devices, by a hash of their handles. A graph replaces
 * another one with the same hash, which then counts as unknown. */
static _Atomic uintptr_t known[KNOWN_MAX];

static _Atomic uintptr_t *place_of(CUgraphExec exec)
{
	/* Handles are addresses of structures, so their low bits are equal. */
	return &known[((uintptr_t)exec >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

static bool graph_reaches_host(CUgraph graph, int depth);

static bool copy_reaches_host(CUgraphNode node)
{
	CUDA_MEMCPY3D copy;

	if (cm_real.cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS)
		return true;
	return cm_end_of_box_is_host(copy.srcMemoryType, copy.srcDevice) ||
	       cm_end_of_box_is_host(copy.dstMemoryType, copy.dstDevice);
}

static bool fill_reaches_host(CUgraphNode node)
{
	CUDA_MEMSET_NODE_PARAMS fill;

	return cm_real.cuGraphMemsetNodeGetParams(node, &fill) != CUDA_SUCCESS ||
	       cm_end_of_device_is_host(fill.dst);
}

static bool child_reaches_host(CUgraphNode node, int depth)
{
	CUgraph child;

	return cm_real.cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS ||
	       graph_reaches_host(child, depth + 1);
}

/* Kernels are checked at the launch. What a node of another kind does is not known. */
static bool node_reaches_host(CUgraphNode node, int depth)
{
	CUgraphNodeType type;

	if (cm_real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS)
		return true;
	switch ((unsigned int)type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return copy_reaches_host(node);
	case CU_GRAPH_NODE_TYPE_MEMSET:
		return fill_reaches_host(node);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return child_reaches_host(node, depth);
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		return false;
	default:
		return true;
	}
}

static bool graph_reaches_host(CUgraph graph, int depth)
{
	CUgraphNode *nodes;
	size_t n = 0, i;
	bool found = false;

	if (depth == DEPTH_MAX || cm_real.cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS ||
	    n > NODES_MAX)
		return true;
	if (!n)
		return false;
	nodes = malloc(n * sizeof(*nodes));
	if (!nodes)
		return true;
	found = cm_real.cuGraphGetNodes(graph, nodes, &n) != CUDA_SUCCESS;
	for (i = 0; i < n && !found; i++)
		found = node_reaches_host(nodes[i], depth);
	free(nodes);
	return found;
}

void cm_graph_work_note(CUgraphExec exec, CUgraph graph)
{
	_Atomic uintptr_t *place = place_of(exec);

	if (!cm_host_work_is_on())
		return;
	if (!graph_reaches_host(graph, 0))
		atomic_store_explicit(place, (uintptr_t)exec, memory_order_relaxed);
	else if (atomic_load_explicit(place, memory_order_relaxed) == (uintptr_t)exec)
		atomic_store_explicit(place, 0, memory_order_relaxed); /* an older graph's handle */
}

bool cm_graph_work_reaches_host(CUgraphExec exec)
{
	return cm_host_work_has_kernels() ||
	       atomic_load_explicit(place_of(exec), memory_order_relaxed) != (uintptr_t)exec;
}
