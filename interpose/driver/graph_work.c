/* SPDX-License-Identifier: MIT */
#include "interpose/driver/graph_work.h"

#include <stdlib.h>

#include "allocator/base/lock.h"
#include "allocator/cache.h"
#include "interpose/core/state.h"
#include "interpose/driver/graph_kernels.h"
#include "interpose/driver/host_memory_ends.h"
#include "interpose/driver/host_work.h"

#define DEPTH_MAX 16      /* graphs in graphs */
#define NODES_MAX 1000000 /* of one graph that is walked */
#define EXECS_MAX 1024    /* a power of two */

/* What the work of a graph reaches. */
struct reached {
	uint64_t devices; /* by their ordinals: a cache, or its row of a device, may come later */
	bool host;
};

static const struct reached everything = {.devices = CM_ALL_ORDINALS, .host = true};

/* Executable graphs, by a hash of their handles, guarded by the lock. A graph replaces another one
 * with the same hash, which then counts as unknown. */
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_GRAPHS);
static struct instantiated {
	uintptr_t exec;
	struct reached reached;
} instantiated[EXECS_MAX];

/* Handles are addresses of structures, so their low bits are equal. */
static struct instantiated *place_of(CUgraphExec exec)
{
	return &instantiated[((uintptr_t)exec >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* ---- the nodes of a graph ---- */

static void walk(CUgraph graph, int depth, struct reached *reached);

static void add_everything(struct reached *reached)
{
	*reached = everything;
}

/* The device of an address. The memory may be another one's than the cache's, as that of
 * cuMemAllocAsync: an update can lead the node to memory of the cache on that device. */
static uint64_t device_of(CUdeviceptr addr, bool host)
{
	int device = 0;

	if (cm_real.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr) !=
	    CUDA_SUCCESS)
		return host ? 0 : CM_ALL_ORDINALS;
	return (unsigned int)device < 64 ? UINT64_C(1) << device : CM_ALL_ORDINALS;
}

/* An end of a copy. An update cannot lead it to memory of another kind. */
static void add_box(struct reached *reached, CUmemorytype type, CUdeviceptr addr)
{
	const bool host = cm_end_of_box_is_host(type, addr);

	reached->host = reached->host || host;
	if (type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED)
		reached->devices |= device_of(addr, host);
}

static void add_copy(CUgraphNode node, struct reached *reached)
{
	CUDA_MEMCPY3D copy;

	if (cm_real.cuGraphMemcpyNodeGetParams(node, &copy) != CUDA_SUCCESS) {
		add_everything(reached);
		return;
	}
	add_box(reached, copy.srcMemoryType, copy.srcDevice);
	add_box(reached, copy.dstMemoryType, copy.dstDevice);
}

static void add_fill(CUgraphNode node, struct reached *reached)
{
	CUDA_MEMSET_NODE_PARAMS fill;

	if (cm_real.cuGraphMemsetNodeGetParams(node, &fill) == CUDA_SUCCESS)
		add_box(reached, CU_MEMORYTYPE_DEVICE, fill.dst);
	else
		add_everything(reached);
}

static void add_child(CUgraphNode node, int depth, struct reached *reached)
{
	CUgraph child;

	if (cm_real.cuGraphChildGraphNodeGetGraph(node, &child) == CUDA_SUCCESS)
		walk(child, depth + 1, reached);
	else
		add_everything(reached);
}

/* Whether the host sees what kernels do is asked at the launch. What a node of another kind does is
 * not known. */
static void add_node(CUgraphNode node, int depth, struct reached *reached)
{
	CUgraphNodeType type;

	if (cm_real.cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
		add_everything(reached);
		return;
	}
	switch ((unsigned int)type) {
	case CU_GRAPH_NODE_TYPE_MEMCPY:
		add_copy(node, reached);
		break;
	case CU_GRAPH_NODE_TYPE_MEMSET:
		add_fill(node, reached);
		break;
	case CU_GRAPH_NODE_TYPE_GRAPH:
		add_child(node, depth, reached);
		break;
	case CU_GRAPH_NODE_TYPE_HOST:
		reached->host = true;
		break;
	case CU_GRAPH_NODE_TYPE_KERNEL:
	case CU_GRAPH_NODE_TYPE_EMPTY:
	case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
	case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL:
	case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
	case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
	case CU_GRAPH_NODE_TYPE_MEM_FREE:
		break;
	default:
		add_everything(reached);
	}
}

static void walk(CUgraph graph, int depth, struct reached *reached)
{
	CUgraphNode *nodes = NULL;
	size_t n = 0, i;

	if (depth == DEPTH_MAX || cm_real.cuGraphGetNodes(graph, NULL, &n) != CUDA_SUCCESS ||
	    n > NODES_MAX) {
		add_everything(reached);
		return;
	}
	if (!n)
		return;
	nodes = malloc(n * sizeof(*nodes));
	if (!nodes || cm_real.cuGraphGetNodes(graph, nodes, &n) != CUDA_SUCCESS)
		add_everything(reached);
	else
		for (i = 0; i < n; i++)
			add_node(nodes[i], depth, reached);
	free(nodes);
}

/* ---- executable graphs ---- */

void cm_graph_work_note(CUgraphExec exec, CUgraph graph)
{
	struct reached reached = {.devices = cm_graph_kernels_devices(graph)};

	walk(graph, 0, &reached);
	cm_lock_acquire(&lock);
	*place_of(exec) = (struct instantiated){.exec = (uintptr_t)exec, .reached = reached};
	cm_lock_release(&lock);
}

static struct reached reached_by(CUgraphExec exec)
{
	const struct instantiated found = CM_WITH_LOCK(&lock, *place_of(exec));

	return found.exec == (uintptr_t)exec ? found.reached : everything;
}

bool cm_graph_work_reaches_host(CUgraphExec exec)
{
	return cm_host_work_has_kernels() || reached_by(exec).host;
}

uint64_t cm_graph_work_devices(CUgraphExec exec)
{
	return reached_by(exec).devices;
}

uint64_t cm_graph_work_named(CUgraphExec exec)
{
	return cm_cache_rows_of_devices(cm_process_cache_if_made(), reached_by(exec).devices);
}

void cm_graph_work_forget(CUgraphExec exec)
{
	cm_lock_acquire(&lock);
	if (place_of(exec)->exec == (uintptr_t)exec)
		place_of(exec)->exec = 0;
	cm_lock_release(&lock);
}

void cm_graph_work_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock, CM_LOCK_GRAPHS, 0);
	for (i = 0; i < EXECS_MAX; i++)
		instantiated[i].exec = 0;
}
