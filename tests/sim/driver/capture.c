/* SPDX-License-Identifier: MIT */
#include "capture.h"

#include <stdlib.h>

#include "context.h"
#include "event.h"
#include "stream.h"

#define RECAPTURE_FAILURE ((CUresult)918) /* CUDA_ERROR_GRAPH_RECAPTURE_FAILURE, of CUDA 13.3 */

static struct sim_capture *active;
static uint64_t last_id;

static struct sim_capture *ref(struct sim_capture *capture)
{
	capture->refs++;
	return capture;
}

void sim_capture_unref(struct sim_capture *capture)
{
	if (!capture || --capture->refs)
		return;
	sim_graph_unref(capture->graph);
	free(capture);
}

static void drop_stream(struct sim_stream *stream)
{
	sim_nodes_clear(&stream->frontier);
	sim_capture_unref(stream->capture);
	stream->capture = NULL;
}

/* Streams that joined are free again, wherever they are. */
static void end(struct sim_capture *capture)
{
	struct sim_capture **link = &active;

	while (*link != capture)
		link = &(*link)->next;
	*link = capture->next;
	capture->origin = NULL;
	for (int i = 0; i < sim_device_count(); i++) {
		for (struct sim_ctx *ctx = sim_device_get(i)->contexts; ctx; ctx = ctx->next) {
			for (struct sim_stream *s = ctx->streams; s; s = s->next) {
				if (s->capture == capture)
					drop_stream(s);
			}
		}
	}
	sim_capture_unref(capture);
}

void sim_capture_leave(struct sim_stream *stream)
{
	if (!stream->capture)
		return;
	stream->capture->invalid = true;
	if (stream->capture->origin == stream)
		end(stream->capture);
	else
		drop_stream(stream);
}

static bool forbids(const struct sim_capture *capture, const struct sim_thread *self)
{
	if (self->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return false;
	if (capture->thread == self->id)
		return capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
	return self->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
	       capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult sim_capture_check(const struct sim_thread *self)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_capture *capture = active; capture; capture = capture->next) {
		if (forbids(capture, self)) {
			capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

CUresult sim_capture_check_context(const struct sim_ctx *ctx)
{
	CUresult result = CUDA_SUCCESS;

	for (struct sim_stream *stream = active ? ctx->streams : NULL; stream;
	     stream = stream->next) {
		if (stream->capture) {
			stream->capture->invalid = true;
			result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	return result;
}

static CUresult look_around(const struct sim_stream *stream, bool spoils)
{
	CUresult result = CUDA_SUCCESS;

	if (!active || stream != stream->ctx->legacy)
		return CUDA_SUCCESS;
	for (struct sim_stream *other = stream->ctx->streams; other; other = other->next) {
		if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING)) {
			other->capture->invalid |= spoils;
			result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
		}
	}
	return result;
}

CUresult sim_capture_check_stream(const struct sim_stream *stream)
{
	return look_around(stream, true);
}

CUresult sim_capture_ask_stream(const struct sim_stream *stream)
{
	return look_around(stream, false);
}

CUresult sim_capture_refuse(struct sim_stream *stream)
{
	if (!stream->capture)
		return sim_capture_check_stream(stream);
	stream->capture->invalid = true;
	return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUgraphNodeType node_type(const struct sim_op *op)
{
	switch (op->kind) {
	case SIM_OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case SIM_OP_FILL:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case SIM_OP_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	case SIM_OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case SIM_OP_WAIT_VALUE:
	case SIM_OP_WRITE_VALUE:
		return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
	case SIM_OP_MARK:
	case SIM_OP_FREE:
	case SIM_OP_POST:
	case SIM_OP_AWAIT:
		break;
	}
	return CU_GRAPH_NODE_TYPE_EMPTY;
}

static CUresult lose(struct sim_capture *capture, CUresult result)
{
	capture->invalid = true;
	return result;
}

static bool has_same(const struct sim_nodes *nodes, const struct sim_nodes *others)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (!sim_nodes_has(others, nodes->items[i]))
			return false;
	}
	return nodes->count == others->count;
}

/* The next node of the graph does another operation of the same kind now; NULL: it is of another
 * kind, or elsewhere in the graph. That the parameters may differ nobody is asked. */
static struct sim_node *add_again(struct sim_capture *capture, const struct sim_nodes *before,
				  struct sim_op *op)
{
	struct sim_node *node = capture->again;

	if (!node || node->type != node_type(op) || !has_same(&node->before, before)) {
		sim_op_release(op);
		return NULL;
	}
	capture->again = node->next;
	sim_op_release(&node->op);
	node->op = *op;
	return node;
}

CUresult sim_capture_add(struct sim_stream *stream, struct sim_op *op, struct sim_node **ret_node)
{
	struct sim_capture *capture = stream->capture;
	struct sim_node *node;

	if (capture->invalid) {
		sim_op_release(op);
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	}
	if (capture->recaptures)
		node = add_again(capture, &stream->frontier, op);
	else
		node = sim_graph_add(capture->graph, node_type(op), &stream->frontier, op);
	if (!node)
		return lose(capture,
			    capture->recaptures ? RECAPTURE_FAILURE : CUDA_ERROR_OUT_OF_MEMORY);
	sim_nodes_clear(&stream->frontier);
	if (!sim_nodes_add(&stream->frontier, node))
		return lose(capture, CUDA_ERROR_OUT_OF_MEMORY);
	if (ret_node)
		*ret_node = node;
	return CUDA_SUCCESS;
}

CUresult sim_capture_add_graph(struct sim_stream *stream, const struct sim_graph *graph)
{
	struct sim_capture *capture = stream->capture;
	struct sim_nodes ends = {.count = 0};

	if (capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (capture->recaptures)
		return lose(capture, RECAPTURE_FAILURE);
	if (!sim_graph_add_copy(capture->graph, graph, &stream->frontier, &ends)) {
		sim_nodes_clear(&ends);
		return lose(capture, CUDA_ERROR_OUT_OF_MEMORY);
	}
	if (!ends.count)
		return CUDA_SUCCESS;
	sim_nodes_clear(&stream->frontier);
	stream->frontier = ends;
	return CUDA_SUCCESS;
}

void sim_capture_forget_event(struct sim_event *event)
{
	sim_nodes_clear(&event->frontier);
	sim_capture_unref(event->capture);
	event->capture = NULL;
}

CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event)
{
	if (stream->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	sim_capture_forget_event(event);
	event->capture = ref(stream->capture);
	return sim_nodes_add_all(&event->frontier, &stream->frontier)
		       ? CUDA_SUCCESS
		       : lose(stream->capture, CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult sim_capture_check_event(const struct sim_event *event)
{
	if (!event->capture)
		return CUDA_SUCCESS;
	return lose(event->capture, CUDA_ERROR_CAPTURED_EVENT);
}

/* A stream that is not capturing joins the capture of the event. */
static CUresult join(struct sim_stream *stream, const struct sim_event *event)
{
	if (!event->capture->origin)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (event->capture->invalid)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (stream == stream->ctx->legacy)
		return lose(event->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	stream->capture = ref(event->capture);
	return CUDA_SUCCESS;
}

CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool external)
{
	struct sim_op mark = {.kind = SIM_OP_MARK};
	struct sim_node *node;
	CUresult result = CUDA_SUCCESS;

	if (!stream->capture)
		result = join(stream, event);
	else if (stream->capture->invalid)
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (result != CUDA_SUCCESS)
		return result;
	if (external) {
		result = sim_capture_add(stream, &mark, &node);
		if (result == CUDA_SUCCESS) {
			node->type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
			node->event = event;
		}
		return result;
	}
	if (!event->capture)
		return lose(stream->capture, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	if (event->capture != stream->capture) {
		event->capture->invalid = true;
		return lose(stream->capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
	}
	return sim_nodes_add_all(&stream->frontier, &event->frontier)
		       ? CUDA_SUCCESS
		       : lose(stream->capture, CUDA_ERROR_OUT_OF_MEMORY);
}

/* The calls. */

CUresult sim_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	struct sim_thread *self = sim_thread_self();
	CUstreamCaptureMode old = self->capture_mode;

	if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	self->capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}

static CUresult begin(struct sim_stream *stream, CUstreamCaptureMode mode, struct sim_graph *graph)
{
	struct sim_capture *capture;

	if (stream->capture)
		return sim_capture_refuse(stream) ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
	if (stream == stream->ctx->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->adds_to_graph = graph != NULL;
	if (graph)
		sim_graph_ref(graph);
	capture->graph = graph ? graph : sim_graph_create();
	if (!capture->graph) {
		free(capture);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	capture->refs = 1;
	capture->id = ++last_id;
	capture->origin = stream;
	capture->thread = sim_thread_self()->id;
	capture->mode = mode;
	capture->next = active;
	active = capture;
	stream->capture = ref(capture);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream)
		return error;
	if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	return begin(stream, mode, NULL);
}

CUresult sim_cuStreamBeginCapture(CUstream hStream)
{
	return sim_cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL);
}

CUresult sim_cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
					 const CUgraphNode *dependencies,
					 const CUgraphEdgeData *dependencyData,
					 size_t numDependencies, CUstreamCaptureMode mode)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);
	struct sim_graph *graph = sim_graph_of(hGraph);

	if (!stream)
		return result;
	if (!graph || dependencyData || (numDependencies && !dependencies) ||
	    (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	result = begin(stream, mode, graph);
	for (size_t i = 0; i < numDependencies && result == CUDA_SUCCESS; i++) {
		struct sim_node *node = sim_node_of(dependencies[i]);

		if (!node || node->graph != graph)
			result = CUDA_ERROR_INVALID_VALUE;
		else if (!sim_nodes_add(&stream->frontier, node))
			result = CUDA_ERROR_OUT_OF_MEMORY;
		if (result != CUDA_SUCCESS)
			end(stream->capture);
	}
	return result;
}

CUresult sim_cuStreamBeginRecaptureToGraph(CUstream hStream, CUstreamCaptureMode mode,
					   CUgraph hGraph, CUgraphRecaptureCallback callbackFunc,
					   void *userData)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);
	struct sim_graph *graph = sim_graph_of(hGraph);

	(void)callbackFunc;
	(void)userData;
	if (!stream)
		return result;
	if (!graph || (unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	result = begin(stream, mode, graph);
	if (result == CUDA_SUCCESS) {
		stream->capture->recaptures = true;
		stream->capture->again = graph->first;
	}
	return result;
}

/* True when all that was captured comes before the end of the origin. */
static bool is_joined(const struct sim_capture *capture)
{
	for (struct sim_node *node = capture->graph->first; node; node = node->next) {
		if (!node->has_after && !sim_nodes_has(&capture->origin->frontier, node))
			return capture->adds_to_graph;
	}
	return true;
}

static CUresult check_end(const struct sim_stream *stream)
{
	const struct sim_capture *capture = stream->capture;

	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream)
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    capture->thread != sim_thread_self()->id)
		return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);
	struct sim_capture *capture;

	if (!stream)
		return result;
	if (!phGraph)
		return CUDA_ERROR_INVALID_VALUE;
	result = check_end(stream);
	if (result != CUDA_SUCCESS)
		return result;
	capture = stream->capture;
	*phGraph = NULL;
	if (capture->invalid) {
		result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (capture->recaptures && capture->again) {
		result = RECAPTURE_FAILURE;
	} else if (!is_joined(capture)) {
		result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	} else {
		*phGraph = sim_graph_handle(capture->graph);
		if (!capture->adds_to_graph)
			sim_graph_ref(capture->graph);
	}
	end(capture);
	return result;
}

CUresult sim_cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
					       size_t numDependencies, unsigned int flags)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream)
		return error;
	if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (numDependencies && !dependencies))
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream->capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
		sim_nodes_clear(&stream->frontier);
	for (size_t i = 0; i < numDependencies; i++) {
		struct sim_node *node = sim_node_of(dependencies[i]);

		if (!node || node->graph != stream->capture->graph)
			return CUDA_ERROR_INVALID_VALUE;
		if (!sim_nodes_add(&stream->frontier, node))
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
						  const CUgraphEdgeData *dependencyData,
						  size_t numDependencies, unsigned int flags)
{
	return dependencyData ? CUDA_ERROR_NOT_SUPPORTED
			      : sim_cuStreamUpdateCaptureDependencies(hStream, dependencies,
								      numDependencies, flags);
}
