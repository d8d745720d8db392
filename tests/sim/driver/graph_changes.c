/* SPDX-License-Identifier: MIT */
/* Graphs that are changed, and executable ones that are changed. */
#include "context.h"
#include "graph.h"
#include "launch.h"
#include "memory.h"

/* Of the node types those that a program can add otherwise, too. */
CUresult sim_cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph,
			    const CUgraphNode *dependencies, size_t numDependencies,
			    CUgraphNodeParams *nodeParams)
{
	struct sim_op op;
	CUresult result;

	switch ((unsigned)(nodeParams ? nodeParams->type : CU_GRAPH_NODE_TYPE_CONDITIONAL)) {
	case CU_GRAPH_NODE_TYPE_KERNEL:
		result = sim_launch_describe(
			nodeParams->kernel.func, nodeParams->kernel.kern, nodeParams->kernel.ctx,
			nodeParams->kernel.kernelParams, nodeParams->kernel.extra, &op);
		return result == CUDA_SUCCESS
			       ? sim_graph_add_by_handle(phGraphNode, hGraph, dependencies,
							 numDependencies, CU_GRAPH_NODE_TYPE_KERNEL,
							 &op, NULL)
			       : result;
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		return sim_cuGraphAddMemcpyNode(phGraphNode, hGraph, dependencies, numDependencies,
						&nodeParams->memcpy.copyParams,
						nodeParams->memcpy.copyCtx);
	case CU_GRAPH_NODE_TYPE_GRAPH:
		return sim_cuGraphAddChildGraphNode(phGraphNode, hGraph, dependencies,
						    numDependencies, nodeParams->graph.graph);
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
}

CUresult sim_cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
			       const CUgraphNode *dependencies,
			       const CUgraphEdgeData *dependencyData, size_t numDependencies,
			       CUgraphNodeParams *nodeParams)
{
	return dependencyData ? CUDA_ERROR_NOT_SUPPORTED
			      : sim_cuGraphAddNode(phGraphNode, hGraph, dependencies,
						   numDependencies, nodeParams);
}

static CUresult set_kernel(CUgraphNode handle, CUfunction function, CUkernel kernel, CUcontext ctx,
			   void **params, void **extra)
{
	struct sim_node *node = sim_node_of(handle);
	struct sim_op op;
	CUresult result;

	if (!node || node->op.kind != SIM_OP_KERNEL)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_launch_describe(function, kernel, ctx, params, extra, &op);
	if (result != CUDA_SUCCESS)
		return result;
	sim_op_release(&node->op);
	node->op = op;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphKernelNodeSetParams(CUgraphNode hNode,
					const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
	return nodeParams ? set_kernel(hNode, nodeParams->func, NULL, NULL,
				       nodeParams->kernelParams, nodeParams->extra)
			  : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphKernelNodeSetParams_v2(CUgraphNode hNode,
					   const CUDA_KERNEL_NODE_PARAMS_v2 *nodeParams)
{
	return nodeParams ? set_kernel(hNode, nodeParams->func, nodeParams->kern, nodeParams->ctx,
				       nodeParams->kernelParams, nodeParams->extra)
			  : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
	return nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_KERNEL
		       ? set_kernel(hNode, nodeParams->kernel.func, nodeParams->kernel.kern,
				    nodeParams->kernel.ctx, nodeParams->kernel.kernelParams,
				    nodeParams->kernel.extra)
		       : CUDA_ERROR_NOT_SUPPORTED;
}

/* As the manual has it, memory of the same device. */
CUresult sim_cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
					    const CUDA_MEMSET_NODE_PARAMS *memsetParams,
					    CUcontext ctx)
{
	struct sim_op *op = sim_exec_op(hGraphExec, hNode);
	const struct sim_mem *before, *now;

	if (!op || op->kind != SIM_OP_FILL || !memsetParams || !sim_ctx_of(ctx))
		return CUDA_ERROR_INVALID_VALUE;
	before = sim_mem_find(op->u.fill.dst);
	now = sim_mem_find(memsetParams->dst);
	if (!now || (before && before->device != now->device) ||
	    memsetParams->elementSize != op->u.fill.element ||
	    memsetParams->width != op->u.fill.width || memsetParams->height != op->u.fill.height)
		return CUDA_ERROR_INVALID_VALUE;
	op->u.fill.dst = memsetParams->dst;
	op->u.fill.value = memsetParams->value;
	return CUDA_SUCCESS;
}
