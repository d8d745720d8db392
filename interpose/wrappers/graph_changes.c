/* SPDX-License-Identifier: MIT */
/*
 * Hooks of functions that make and destroy graphs, and of those that put kernels into them other
 * than by a capture. Each call goes to the driver unchanged; what a successful one means for the
 * devices of a graph is entered behind it (graph_kernels.h). Copies and fills are found when the
 * graph becomes executable (graph_work.h).
 */
#include <stddef.h>

#include "interpose/driver/graph_kernels.h"
#include "interpose/driver/graph_work.h"
#include "interpose/symbols/hooks.h"

/* A wrapper that evaluates `then` after a success. */
#define THEN(symbol, params, pass, then)            \
	CUresult cm_wrap_##symbol params            \
	{                                           \
		CUresult res = cm_real.symbol pass; \
                                                    \
		if (res == CUDA_SUCCESS)            \
			then;                       \
		return res;                         \
	}

/* In front of the call: another thread may get the same handle before it returns. */
#define FIRST(symbol, params, pass, first)  \
	CUresult cm_wrap_##symbol params    \
	{                                   \
		first;                      \
		return cm_real.symbol pass; \
	}

#define KERNEL(params) ((params) ? cm_device_of_kernel((params)->func, (params)->ctx) : 0)
/* Of CUDA 11: without a context. */
#define FUNCTION(params) ((params) ? cm_device_of_kernel((params)->func, NULL) : 0)
#define ADD(devices)     cm_graph_kernels_add(graph, devices)
/* The driver does not tell of which graph a node is. */
#define CHANGE(devices) cm_graph_kernels_add(NULL, devices)
#define CHILD(child)    cm_graph_kernels_devices(child)

static uint64_t devices_of_node(const CUgraphNodeParams *params)
{
	switch ((unsigned int)(params ? params->type : CU_GRAPH_NODE_TYPE_EMPTY)) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		return KERNEL(&params->kernel);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return CHILD(params->graph.graph);
	default:
		return 0;
	}
}

/* `graph` is NULL for a node that was there before. */
static void note_node(CUgraph graph, const CUgraphNodeParams *params)
{
	ADD(devices_of_node(params));
	if (params && params->type == CU_GRAPH_NODE_TYPE_GRAPH &&
	    params->graph.ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
		cm_graph_kernels_forget(params->graph.graph);
}

/* clang-format off */
THEN(cuGraphCreate, (CUgraph *graph, unsigned int flags), (graph, flags),
     cm_graph_kernels_note(*graph, 0))
THEN(cuGraphClone, (CUgraph *clone, CUgraph graph), (clone, graph),
     cm_graph_kernels_note(*clone, CHILD(graph)))
THEN(cuGraphAddKernelNode,
     (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
      const CUDA_KERNEL_NODE_PARAMS_v1 *params),
     (node, graph, before, n, params), ADD(FUNCTION(params)))
THEN(cuGraphAddKernelNode_v2,
     (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
      const CUDA_KERNEL_NODE_PARAMS_v2 *params),
     (node, graph, before, n, params), ADD(KERNEL(params)))
THEN(cuGraphAddChildGraphNode,
     (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUgraph child),
     (node, graph, before, n, child), ADD(CHILD(child)))
THEN(cuGraphAddNode,
     (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
      CUgraphNodeParams *params),
     (node, graph, before, n, params), note_node(graph, params))
THEN(cuGraphAddNode_v2,
     (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
      size_t n, CUgraphNodeParams *params),
     (node, graph, before, edges, n, params), note_node(graph, params))
THEN(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
     (node, params), CHANGE(FUNCTION(params)))
THEN(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params),
     (node, params), CHANGE(KERNEL(params)))
THEN(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *params), (node, params),
     note_node(NULL, params))
FIRST(cuGraphDestroy, (CUgraph graph), (graph), cm_graph_kernels_forget(graph))
FIRST(cuGraphExecDestroy, (CUgraphExec exec), (exec), cm_graph_work_forget(exec))
/* clang-format on */
