/* SPDX-License-Identifier: MIT */
/*
 * Stream captures: what is submitted to a capturing stream becomes nodes of a graph. The rules are
 * those of cuStreamBeginCapture and cuThreadExchangeStreamCaptureMode. Caller locks.
 */
#ifndef CM_SIM_CAPTURE_H
#define CM_SIM_CAPTURE_H

#include "graph.h"
#include "state.h"

struct sim_ctx;
struct sim_event;
struct sim_stream;

/* Counted: by each stream in it and each event recorded in it, and by being active. */
struct sim_capture {
	unsigned refs;
	uint64_t id;
	struct sim_stream *origin; /* NULL once it has ended */
	uint64_t thread;
	CUstreamCaptureMode mode;
	bool invalid;
	bool adds_to_graph;     /* the graph is the program's, made before */
	bool recaptures;        /* its nodes are made anew, in their order: */
	struct sim_node *again; /* the next one */
	struct sim_graph *graph;
	struct sim_capture *next;
};

void sim_capture_unref(struct sim_capture *capture);

/*
 * What a call that is unsafe during captures has to say: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and
 * the captures in its way are invalidated, or CUDA_SUCCESS.
 */
CUresult sim_capture_check(const struct sim_thread *self);
/* The same for a call that conflicts with a capture in any stream of the context, in any mode. */
CUresult sim_capture_check_context(const struct sim_ctx *ctx);
/* The same for work in a stream that is not capturing: the legacy stream would drag others in. */
CUresult sim_capture_check_stream(const struct sim_stream *stream);
/* The same for a question, which spoils nothing (cuda.h, cuStreamIsCapturing). */
CUresult sim_capture_ask_stream(const struct sim_stream *stream);
/* The same for a call that must not be made for a stream that is capturing. */
CUresult sim_capture_refuse(struct sim_stream *stream);

/* Makes the operation, which it takes over, a node after all that the stream has captured. */
CUresult sim_capture_add(struct sim_stream *stream, struct sim_op *op, struct sim_node **ret_node);
/* The same with all that a graph does. */
CUresult sim_capture_add_graph(struct sim_stream *stream, const struct sim_graph *graph);

/* The event stands for what the stream has captured so far. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
/* Work of the stream comes after the event, one of which is captured. */
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event, bool external);
/* CUDA_ERROR_CAPTURED_EVENT when the event stands for captured work, and the capture is lost. */
CUresult sim_capture_check_event(const struct sim_event *event);
/* The event stands for nothing captured any more. */
void sim_capture_forget_event(struct sim_event *event);

/* The stream goes away. */
void sim_capture_leave(struct sim_stream *stream);

#endif
