/* SPDX-License-Identifier: MIT */
/* Building graphs by hand, and looking at them. */
#include "context.h"
#include "copy.h"
#include "event.h"
#include "graph.h"
#include "memory.h"

CUresult sim_cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
	struct sim_graph *graph;

	if (!phGraph || flags)
		return CUDA_ERROR_INVALID_VALUE;
	graph = sim_graph_create();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraph = sim_graph_handle(graph);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphDestroy(CUgraph hGraph)
{
	struct sim_graph *graph = sim_graph_of(hGraph);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	graph->destroyed = true;
	sim_graph_unref(graph);
	return CUDA_SUCCESS;
}

static bool collect(struct sim_graph *graph, const CUgraphNode *handles, size_t count,
		    struct sim_nodes *ret)
{
	for (size_t i = 0; i < count; i++) {
		struct sim_node *node = handles ? sim_node_of(handles[i]) : NULL;

		if (!node || node->graph != graph || !sim_nodes_add(ret, node))
			return false;
	}
	return true;
}

CUresult sim_graph_add_by_handle(CUgraphNode *ret_handle, CUgraph handle,
				 const CUgraphNode *dependencies, size_t count,
				 CUgraphNodeType type, struct sim_op *op,
				 struct sim_node **ret_node)
{
	struct sim_graph *graph = sim_graph_of(handle);
	struct sim_nodes before = {.count = 0};
	struct sim_node *node;

	if (!ret_handle || !graph || !collect(graph, dependencies, count, &before)) {
		sim_op_release(op);
		sim_nodes_clear(&before);
		return CUDA_ERROR_INVALID_VALUE;
	}
	node = sim_graph_add(graph, type, &before, op);
	sim_nodes_clear(&before);
	if (!node)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_handle = sim_node_handle(node);
	if (ret_node)
		*ret_node = node;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				 const CUgraphNode *dependencies, size_t numDependencies)
{
	struct sim_op op = {.kind = SIM_OP_MARK};

	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_EMPTY, &op, NULL);
}

CUresult sim_cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				const CUgraphNode *dependencies, size_t numDependencies,
				const CUDA_HOST_NODE_PARAMS *nodeParams)
{
	struct sim_op op = {.kind = SIM_OP_HOST};

	if (!nodeParams || !nodeParams->fn)
		return CUDA_ERROR_INVALID_VALUE;
	op.u.host.function = nodeParams->fn;
	op.u.host.data = nodeParams->userData;
	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_HOST, &op, NULL);
}

CUresult sim_cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
	struct sim_op op;
	CUresult result = sim_copy_describe(copyParams, &op);

	if (result != CUDA_SUCCESS)
		return result;
	if (!sim_ctx_of(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_MEMCPY, &op, NULL);
}

CUresult sim_cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				  const CUgraphNode *dependencies, size_t numDependencies,
				  const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
	struct sim_op op = {.kind = SIM_OP_FILL};

	if (!memsetParams || !sim_mem_find(memsetParams->dst) || !memsetParams->elementSize ||
	    memsetParams->elementSize > 4 || memsetParams->elementSize == 3)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_ctx_of(ctx))
		return CUDA_ERROR_INVALID_CONTEXT;
	op.u.fill = (struct sim_fill){
		.dst = memsetParams->dst,
		.pitch = memsetParams->pitch,
		.width = memsetParams->width,
		.height = memsetParams->height,
		.value = memsetParams->value,
		.element = memsetParams->elementSize,
	};
	op.duration_ns = sim_op_move_ns(op.u.fill.width * op.u.fill.height * op.u.fill.element);
	return sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
				       CU_GRAPH_NODE_TYPE_MEMSET, &op, NULL);
}

static CUresult add_event_node(CUgraphNode *ret_handle, CUgraph handle,
			       const CUgraphNode *dependencies, size_t count, CUgraphNodeType type,
			       CUevent event)
{
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_node *node;
	CUresult result;

	if (!sim_object_is(event, SIM_EVENT))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_graph_add_by_handle(ret_handle, handle, dependencies, count, type, &op, &node);
	if (result == CUDA_SUCCESS)
		node->event = (struct sim_event *)(void *)event;
	return result;
}

CUresult sim_cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				       const CUgraphNode *dependencies, size_t numDependencies,
				       CUevent event)
{
	return add_event_node(phGraphNode, hGraph, dependencies, numDependencies,
			      CU_GRAPH_NODE_TYPE_EVENT_RECORD, event);
}

CUresult sim_cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				     const CUgraphNode *dependencies, size_t numDependencies,
				     CUevent event)
{
	return add_event_node(phGraphNode, hGraph, dependencies, numDependencies,
			      CU_GRAPH_NODE_TYPE_WAIT_EVENT, event);
}

/* A copy, for those who look at the node. NULL if memory is out. */
static struct sim_graph *clone(const struct sim_graph *graph)
{
	const struct sim_nodes none = {.count = 0};
	struct sim_graph *copy = sim_graph_create();
	struct sim_nodes ends = {.count = 0};
	bool ok = copy && sim_graph_add_copy(copy, graph, &none, &ends);

	sim_nodes_clear(&ends);
	if (!ok)
		sim_graph_unref(copy);
	return ok ? copy : NULL;
}

CUresult sim_cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
	const struct sim_graph *graph = sim_graph_of(originalGraph);
	struct sim_graph *copy;

	if (!phGraphClone || !graph)
		return CUDA_ERROR_INVALID_VALUE;
	copy = clone(graph);
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraphClone = sim_graph_handle(copy);
	return CUDA_SUCCESS;
}

/* A child is copied in; its node is the join of its ends. */
CUresult sim_cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				      const CUgraphNode *dependencies, size_t numDependencies,
				      CUgraph childGraph)
{
	struct sim_graph *graph = sim_graph_of(hGraph);
	struct sim_graph *child = sim_graph_of(childGraph);
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_nodes before = {.count = 0};
	struct sim_nodes ends = {.count = 0};
	struct sim_node *node = NULL;

	if (!phGraphNode || !graph || !child || graph == child ||
	    !collect(graph, dependencies, numDependencies, &before)) {
		sim_nodes_clear(&before);
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (sim_nodes_add_all(&ends, &before) && sim_graph_add_copy(graph, child, &before, &ends))
		node = sim_graph_add(graph, CU_GRAPH_NODE_TYPE_GRAPH, &ends, &op);
	sim_nodes_clear(&before);
	sim_nodes_clear(&ends);
	if (node)
		node->child = clone(child);
	if (!node || !node->child)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phGraphNode = sim_node_handle(node);
	return CUDA_SUCCESS;
}

/* What is changed in it does not become a part of the node. */
CUresult sim_cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
	const struct sim_node *node = sim_node_of(hNode);

	if (!node || !node->child || !phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	*phGraph = sim_graph_handle(node->child);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
				    size_t numDependencies)
{
	struct sim_graph *graph = sim_graph_of(hGraph);

	if (!graph || (numDependencies && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < numDependencies; i++) {
		struct sim_node *before = sim_node_of(from[i]);
		struct sim_node *after = sim_node_of(to[i]);

		if (!before || !after || before->graph != graph || after->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
		if (!sim_nodes_add(&after->before, before))
			return CUDA_ERROR_OUT_OF_MEMORY;
		before->has_after = true;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
				       const CUgraphNode *to, const CUgraphEdgeData *edgeData,
				       size_t numDependencies)
{
	return edgeData ? CUDA_ERROR_NOT_SUPPORTED
			: sim_cuGraphAddDependencies(hGraph, from, to, numDependencies);
}

/* Returns nodes as the querying functions do: with no room given, only their number. */
static void give(CUgraphNode *handles, size_t room, size_t *count, struct sim_node *node)
{
	if (handles && *count < room)
		handles[*count] = sim_node_handle(node);
	(*count)++;
}

static CUresult list_nodes(CUgraph handle, CUgraphNode *nodes, size_t *number, bool roots)
{
	const struct sim_graph *graph = sim_graph_of(handle);
	size_t count = 0;

	if (!graph || !number)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct sim_node *node = graph->first; node; node = node->next) {
		if (!roots || !node->before.count)
			give(nodes, *number, &count, node);
	}
	for (size_t i = count; nodes && i < *number; i++)
		nodes[i] = NULL;
	*number = count;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
	return list_nodes(hGraph, nodes, numNodes, false);
}

CUresult sim_cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
	return list_nodes(hGraph, rootNodes, numRootNodes, true);
}

CUresult sim_cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
	const struct sim_graph *graph = sim_graph_of(hGraph);
	size_t count = 0;

	if (!graph || !numEdges || !from != !to)
		return CUDA_ERROR_INVALID_VALUE;
	for (struct sim_node *node = graph->first; node; node = node->next) {
		for (size_t i = 0; i < node->before.count; i++) {
			size_t same = count;

			give(to, *numEdges, &same, node);
			give(from, *numEdges, &count, node->before.items[i]);
		}
	}
	*numEdges = count;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				CUgraphEdgeData *edgeData, size_t *numEdges)
{
	size_t room = numEdges ? *numEdges : 0;

	for (size_t i = 0; edgeData && i < room; i++)
		edgeData[i] = (CUgraphEdgeData){.type = 0};
	return sim_cuGraphGetEdges(hGraph, from, to, numEdges);
}

CUresult sim_cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
	const struct sim_node *node = sim_node_of(hNode);

	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}

/* In unified addresses, whatever the node was made of. */
CUresult sim_cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
	const struct sim_node *node = sim_node_of(hNode);
	const struct sim_copy *copy = node ? &node->op.u.copy : NULL;

	if (!node || !nodeParams || node->op.kind != SIM_OP_COPY)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = copy->src,
		.srcPitch = copy->src_pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = copy->dst,
		.dstPitch = copy->dst_pitch,
		.WidthInBytes = copy->width,
		.Height = copy->height,
		.Depth = copy->depth,
	};
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
	const struct sim_node *node = sim_node_of(hNode);
	const struct sim_fill *fill = node ? &node->op.u.fill : NULL;

	if (!node || !nodeParams || node->op.kind != SIM_OP_FILL)
		return CUDA_ERROR_INVALID_VALUE;
	*nodeParams = (CUDA_MEMSET_NODE_PARAMS){
		.dst = fill->dst,
		.pitch = fill->pitch,
		.value = fill->value,
		.elementSize = fill->element,
		.width = fill->width,
		.height = fill->height,
	};
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
					size_t *numDependencies)
{
	const struct sim_node *node = sim_node_of(hNode);
	size_t count = 0;

	if (!node || !numDependencies)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < node->before.count; i++)
		give(dependencies, *numDependencies, &count, node->before.items[i]);
	*numDependencies = count;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
					   CUgraphEdgeData *edgeData, size_t *numDependencies)
{
	size_t room = numDependencies ? *numDependencies : 0;

	for (size_t i = 0; edgeData && i < room; i++)
		edgeData[i] = (CUgraphEdgeData){.type = 0};
	return sim_cuGraphNodeGetDependencies(hNode, dependencies, numDependencies);
}

/* Memory nodes: the address is the graph's for as long as it, or an executable of it, lives. */

CUresult sim_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				    const CUgraphNode *dependencies, size_t numDependencies,
				    CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_device *device;
	struct sim_node *node;
	struct sim_mem *mem;
	CUresult result;

	if (!nodeParams || !nodeParams->bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	device = sim_device_get(nodeParams->poolProps.location.id);
	mem = device ? sim_mem_alloc_on(device, SIM_MEM_GRAPH, nodeParams->bytesize) : NULL;
	if (!mem)
		return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
	result = sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
					 CU_GRAPH_NODE_TYPE_MEM_ALLOC, &op, &node);
	if (result != CUDA_SUCCESS) {
		sim_mem_free(mem);
		return result;
	}
	node->mem = mem;
	nodeParams->dptr = mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
				   const CUgraphNode *dependencies, size_t numDependencies,
				   CUdeviceptr dptr)
{
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_mem *mem = sim_mem_find_base(dptr);
	struct sim_node *node;
	CUresult result;

	if (!mem || mem->kind != SIM_MEM_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_graph_add_by_handle(phGraphNode, hGraph, dependencies, numDependencies,
					 CU_GRAPH_NODE_TYPE_MEM_FREE, &op, &node);
	if (result == CUDA_SUCCESS)
		node->mem = mem;
	return result;
}

CUresult sim_cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
	const struct sim_node *node = sim_node_of(hNode);

	if (!params_out || !node || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_INVALID_VALUE;
	*params_out = (CUDA_MEM_ALLOC_NODE_PARAMS){
		.bytesize = node->mem->bytes,
		.dptr = node->mem->base,
	};
	params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	params_out->poolProps.location.id = node->mem->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
	const struct sim_node *node = sim_node_of(hNode);

	if (!dptr_out || !node || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
		return CUDA_ERROR_INVALID_VALUE;
	*dptr_out = node->mem->base;
	return CUDA_SUCCESS;
}
