/* SPDX-License-Identifier: MIT */
/* Executable graphs: the nodes in an order that respects their edges, ready to be submitted. */
#include <stdlib.h>

#include "capture.h"
#include "checker.h"
#include "context.h"
#include "event.h"
#include "graph.h"
#include "line.h"
#include "stream.h"

struct step {
	struct sim_op op;
	CUgraphNodeType type;
	struct sim_event *event;
	unsigned before_count;
	unsigned *before; /* indices of earlier steps */
	bool has_after;
	unsigned branch;  /* which of the graph's it is on: each step of one follows the last */
	bool is_followed; /* on its branch */
};

struct sim_exec {
	struct sim_object object;
	struct sim_graph *graph;
	struct step *steps;
	unsigned count;
	unsigned branches;
	uint32_t *lines;       /* of the checker, one for each branch */
	struct sim_work *last; /* an executable does not overlap itself */
};

static struct sim_exec *exec_of(CUgraphExec handle)
{
	return sim_object_is(handle, SIM_GRAPH_EXEC) ? (struct sim_exec *)(void *)handle : NULL;
}

struct sim_op *sim_exec_op(CUgraphExec handle, CUgraphNode node_handle)
{
	const struct sim_node *node = sim_node_of(node_handle);
	struct sim_exec *exec = exec_of(handle);

	if (!exec || !node || node->graph != exec->graph || node->index >= exec->count)
		return NULL;
	return &exec->steps[node->index].op;
}

static void destroy_exec(struct sim_exec *exec)
{
	for (unsigned i = 0; i < exec->count; i++) {
		sim_op_release(&exec->steps[i].op);
		free(exec->steps[i].before);
	}
	free(exec->steps);
	for (unsigned i = 0; exec->lines && i < exec->branches; i++)
		sim_line_leave(&exec->lines[i]);
	free(exec->lines);
	sim_graph_launched(exec->graph, exec->last);
	sim_work_unref(exec->last);
	sim_graph_unref(exec->graph);
	sim_object_destroy(exec);
}

/* A step goes on with the branch of one that it comes after, or begins a new one. */
static void find_branch(struct sim_exec *exec, struct step *step)
{
	for (unsigned i = 0; i < step->before_count; i++) {
		struct step *before = &exec->steps[step->before[i]];

		if (before->is_followed)
			continue;
		before->is_followed = true;
		step->branch = before->branch;
		return;
	}
	step->branch = exec->branches++;
}

static bool make_step(struct sim_exec *exec, struct step *step, const struct sim_node *node)
{
	step->before = calloc(node->before.count + 1, sizeof(step->before[0]));
	if (!step->before || !sim_op_clone(&node->op, &step->op)) {
		free(step->before);
		return false;
	}
	step->type = node->type;
	step->event = node->event;
	step->has_after = node->has_after;
	for (size_t i = 0; i < node->before.count; i++)
		step->before[step->before_count++] = node->before.items[i]->index;
	find_branch(exec, step);
	return true;
}

enum { UNPLACED = ~0 };

static bool is_due(const struct sim_node *node)
{
	if (node->index != (unsigned)UNPLACED)
		return false;
	for (size_t i = 0; i < node->before.count; i++) {
		if (node->before.items[i]->index == (unsigned)UNPLACED)
			return false;
	}
	return true;
}

/* Nodes in the order of their making, as often as it takes: usually once. */
static CUresult place_all(struct sim_exec *exec)
{
	bool progress = true;

	for (struct sim_node *node = exec->graph->first; node; node = node->next)
		node->index = (unsigned)UNPLACED;
	while (progress && exec->count < exec->graph->count) {
		progress = false;
		for (struct sim_node *node = exec->graph->first; node; node = node->next) {
			if (!is_due(node))
				continue;
			if (!make_step(exec, &exec->steps[exec->count], node))
				return CUDA_ERROR_OUT_OF_MEMORY;
			node->index = exec->count++;
			progress = true;
		}
	}
	return progress || !exec->graph->count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
					 unsigned long long flags)
{
	const unsigned known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
			       CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
			       CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
	struct sim_graph *graph = sim_graph_of(hGraph);
	struct sim_exec *exec;
	CUresult result;

	if (!phGraphExec || !graph || (flags & ~(unsigned long long)known))
		return CUDA_ERROR_INVALID_VALUE;
	exec = sim_object_create(SIM_GRAPH_EXEC, sizeof(*exec));
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	exec->graph = graph;
	sim_graph_ref(graph);
	exec->steps = calloc(graph->count + 1, sizeof(exec->steps[0]));
	result = exec->steps ? place_all(exec) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result == CUDA_SUCCESS) {
		exec->lines = calloc(exec->branches + 1, sizeof(exec->lines[0]));
		result = exec->lines ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (result != CUDA_SUCCESS) {
		destroy_exec(exec);
		return result;
	}
	*phGraphExec = (CUgraphExec)(void *)exec;
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph,
				   CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	if (phErrorNode)
		*phErrorNode = NULL;
	if (logBuffer && bufferSize)
		*logBuffer = '\0';
	return sim_cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}

CUresult sim_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
					  CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
	CUresult result;

	if (!instantiateParams)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_cuGraphInstantiateWithFlags(phGraphExec, hGraph, instantiateParams->flags);
	instantiateParams->hErrNode_out = NULL;
	instantiateParams->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS
							       : CUDA_GRAPH_INSTANTIATE_ERROR;
	return result;
}

CUresult sim_cuGraphExecDestroy(CUgraphExec hGraphExec)
{
	struct sim_exec *exec = exec_of(hGraphExec);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	destroy_exec(exec);
	return CUDA_SUCCESS;
}

CUresult sim_cuGraphUpload(CUgraphExec hGraph, CUstream hStream)
{
	CUresult error;

	if (!exec_of(hGraph))
		return CUDA_ERROR_INVALID_VALUE;
	return sim_stream_of(hStream, &error) ? CUDA_SUCCESS : error;
}

static struct sim_work *submit_step(const struct sim_exec *exec, const struct step *step,
				    struct sim_stream *stream, struct sim_work **works)
{
	struct sim_work *work;
	struct sim_op op;

	if (!sim_op_clone(&step->op, &op))
		return NULL;
	work = sim_work_create(stream->ctx, &op);
	if (!work) {
		sim_op_release(&op);
		return NULL;
	}
	if (!step->before_count) {
		sim_stream_order(stream, work);
		sim_work_after(work, exec->last);
	}
	for (unsigned i = 0; i < step->before_count; i++)
		sim_work_after(work, works[step->before[i]]);
	if (step->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT)
		sim_work_after(work, sim_event_work(step->event));
	sim_checker_submitted(work, stream, &exec->lines[step->branch], true);
	sim_work_commit(work);
	if (step->type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
		sim_event_store(step->event, work);
	return work;
}

/* The end of the launch: what comes next in the stream comes after all of it. */
static struct sim_work *submit_join(const struct sim_exec *exec, struct sim_stream *stream,
				    struct sim_work **works, unsigned count)
{
	static const struct sim_op mark = {.kind = SIM_OP_MARK};
	struct sim_work *join = sim_work_create(stream->ctx, &mark);

	if (!join)
		return NULL;
	sim_stream_order(stream, join);
	for (unsigned i = 0; i < count; i++) {
		if (!exec->steps[i].has_after)
			sim_work_after(join, works[i]);
	}
	sim_work_commit(join);
	return join;
}

static CUresult launch(struct sim_exec *exec, struct sim_stream *stream)
{
	struct sim_work **works = calloc(exec->count + 1, sizeof(works[0]));
	struct sim_work *join;
	unsigned count = 0;

	if (!works)
		return CUDA_ERROR_OUT_OF_MEMORY;
	while (count < exec->count) {
		works[count] = submit_step(exec, &exec->steps[count], stream, works);
		if (!works[count])
			break;
		count++;
	}
	join = submit_join(exec, stream, works, count);
	if (join) {
		sim_work_store(&stream->tail, join);
		sim_work_store(&exec->last, join);
		sim_work_unref(join);
	}
	for (unsigned i = 0; i < count; i++)
		sim_work_unref(works[i]);
	free(works);
	return join && count == exec->count ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuGraphLaunch(CUgraphExec hGraph, CUstream hStream)
{
	struct sim_exec *exec = exec_of(hGraph);
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);

	if (!stream)
		return result;
	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return sim_capture_add_graph(stream, exec->graph);
	result = sim_capture_check_stream(stream);
	return result == CUDA_SUCCESS ? launch(exec, stream) : result;
}
