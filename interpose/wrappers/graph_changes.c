/* SPDX-License-Identifier: MIT */
/*
 * Hooks of functions that add kernels to a graph, or replace them, other than by a capture. Each
 * call goes to the driver unchanged; what is known of graphs ends before it (captured_graph.h).
 */
#include "interpose/driver/captured_graph.h"
#include "interpose/symbols/hooks.h"

#define CHANGE(symbol, params, pass)             \
	CUresult cm_wrap_##symbol params         \
	{                                        \
		cm_captured_graph_note_change(); \
		return cm_real.symbol pass;      \
	}

/* clang-format off */
CHANGE(cuGraphAddKernelNode,
       (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
	const CUDA_KERNEL_NODE_PARAMS_v1 *params),
       (node, graph, before, n, params))
CHANGE(cuGraphAddKernelNode_v2,
       (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
	const CUDA_KERNEL_NODE_PARAMS_v2 *params),
       (node, graph, before, n, params))
CHANGE(cuGraphAddChildGraphNode,
       (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n, CUgraph child),
       (node, graph, before, n, child))
CHANGE(cuGraphAddNode,
       (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t n,
	CUgraphNodeParams *params),
       (node, graph, before, n, params))
CHANGE(cuGraphAddNode_v2,
       (CUgraphNode *node, CUgraph graph, const CUgraphNode *before, const CUgraphEdgeData *edges,
	size_t n, CUgraphNodeParams *params),
       (node, graph, before, edges, n, params))
CHANGE(cuGraphKernelNodeSetParams, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1 *params),
       (node, params))
CHANGE(cuGraphKernelNodeSetParams_v2, (CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params),
       (node, params))
CHANGE(cuGraphNodeSetParams, (CUgraphNode node, CUgraphNodeParams *params), (node, params))
CHANGE(cuGraphClone, (CUgraph *clone, CUgraph graph), (clone, graph))
/* clang-format on */
