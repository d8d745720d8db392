/* SPDX-License-Identifier: MIT */
/*
 * Streams: the legacy one of each context, one for each thread that uses the per-thread default,
 * and those that the program makes. Caller locks.
 */
#ifndef CM_SIM_STREAM_H
#define CM_SIM_STREAM_H

#include "graph.h"
#include "line.h"
#include "object.h"
#include "work.h"

struct sim_capture;

enum { SIM_STREAM_ATTRIBUTES = CU_LAUNCH_ATTRIBUTE_MAX };

struct sim_stream {
	struct sim_object object;
	struct sim_ctx *ctx;
	struct sim_stream *next; /* of the context */
	unsigned flags;          /* CU_STREAM_NON_BLOCKING or none */
	int priority;
	uint64_t thread; /* whose default stream it is, or 0 */
	struct sim_work *tail;
	uint32_t line;               /* of the checker */
	struct sim_capture *capture; /* NULL: work is carried out */
	struct sim_nodes frontier;   /* what the next captured node comes after */
	CUstreamAttrValue attributes[SIM_STREAM_ATTRIBUTES];
};

/* NULL when memory is out. */
struct sim_stream *sim_stream_create(struct sim_ctx *ctx, unsigned flags, int priority);
/* What was submitted goes on. */
void sim_stream_destroy(struct sim_stream *stream);

/*
 * The stream that a handle means in the current context: 0 and the special values included. NULL
 * and the error through ret_error when it is none.
 */
struct sim_stream *sim_stream_of(CUstream handle, CUresult *ret_error);

/* Makes `work` come after all that an operation in the stream comes after. */
void sim_stream_order(const struct sim_stream *stream, struct sim_work *work);

/*
 * Submits an operation, which it takes over, to the stream; when the stream is capturing it becomes
 * a node. ret_work (may be NULL) gets a reference: what waits, or asks, is refused for a stream
 * that is capturing.
 */
CUresult sim_stream_submit(struct sim_stream *stream, struct sim_op *op,
			   struct sim_work **ret_work);
/* The same, and the host waits. */
CUresult sim_stream_submit_and_wait(struct sim_stream *stream, struct sim_op *op);

/*
 * A mark after all of the stream, a reference, that is no work of the stream itself: nothing comes
 * after it. Refused for a stream that is capturing.
 */
CUresult sim_stream_mark(struct sim_stream *stream, struct sim_work **ret_mark);
/* The host waits for all of the stream. */
CUresult sim_stream_wait(struct sim_stream *stream);

#endif
