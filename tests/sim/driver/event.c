/* SPDX-License-Identifier: MIT */
#include "event.h"

#include <stdlib.h>

#include "capture.h"
#include "context.h"
#include "shared_event.h"
#include "stream.h"

static struct sim_event *event_of(CUevent handle)
{
	return sim_object_is(handle, SIM_EVENT) ? (struct sim_event *)(void *)handle : NULL;
}

static struct sim_event *create(unsigned flags)
{
	struct sim_ctx *ctx = sim_ctx_current();
	struct sim_event *event = sim_object_create(SIM_EVENT, sizeof(*event));

	if (!event)
		return NULL;
	event->ctx = ctx;
	event->flags = flags;
	event->next = ctx->events;
	if (event->next)
		event->next->prev = event;
	ctx->events = event;
	return event;
}

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING |
			       CU_EVENT_INTERPROCESS;
	struct sim_event *event;

	if (!phEvent || (Flags & ~known) ||
	    ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = create(Flags);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phEvent = (CUevent)(void *)event;
	return CUDA_SUCCESS;
}

void sim_event_destroy(struct sim_event *event)
{
	if (event->next)
		event->next->prev = event->prev;
	if (event->prev)
		event->prev->next = event->next;
	else
		event->ctx->events = event->next;
	sim_capture_forget_event(event);
	sim_work_unref(event->work);
	sim_shared_event_unref(event->shared);
	sim_object_destroy(event);
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent)
{
	struct sim_event *event = event_of(hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_event_destroy(event);
	return CUDA_SUCCESS;
}

CUresult sim_cuEventDestroy(CUevent hEvent)
{
	return sim_cuEventDestroy_v2(hEvent);
}

/* Other processes learn of the last record, and when it is complete. */
static void post(struct sim_event *event)
{
	struct sim_op op = {.kind = SIM_OP_POST};
	struct sim_work *work;

	event->number = sim_shared_event_record(event->shared);
	op.u.record = (struct sim_record){sim_shared_event_ref(event->shared), event->number};
	work = sim_work_create(event->ctx, &op);
	if (!work)
		abort(); /* an order that is lost would be worse than a simulator that stops */
	sim_work_after(work, event->work);
	sim_work_commit(work);
	sim_work_unref(work);
}

void sim_event_store(struct sim_event *event, struct sim_work *work)
{
	sim_work_store(&event->work, work);
	if (event->shared)
		post(event);
}

/* Stands for a record that another process has made. */
static void await(struct sim_event *event, uint64_t number)
{
	struct sim_op op = {.kind = SIM_OP_AWAIT};
	struct sim_work *work;

	op.u.record = (struct sim_record){sim_shared_event_ref(event->shared), number};
	work = sim_work_create(event->ctx, &op);
	if (!work)
		abort();
	sim_work_commit(work);
	sim_work_store(&event->work, work);
	sim_work_unref(work);
	event->number = number;
}

struct sim_work *sim_event_work(struct sim_event *event)
{
	uint64_t last = event->shared ? sim_shared_event_last(event->shared) : event->number;

	if (last != event->number)
		await(event, last);
	return event->work;
}

CUresult sim_cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent hEvent)
{
	struct sim_event *event = event_of(hEvent);

	if (!pHandle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!event->shared) {
		event->shared = sim_shared_event_create();
		if (!event->shared)
			return CUDA_ERROR_OUT_OF_MEMORY;
		/* A row that was another event's has numbers. */
		event->number = sim_shared_event_last(event->shared);
		if (event->work)
			post(event);
	}
	sim_shared_event_describe(event->shared, pHandle);
	return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct sim_shared_event *shared;
	struct sim_event *event;

	if (!phEvent)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_shared_event_is_own(&handle))
		return CUDA_ERROR_INVALID_CONTEXT;
	shared = sim_shared_event_open(&handle);
	if (!shared)
		return CUDA_ERROR_INVALID_HANDLE;
	event = create(CU_EVENT_DISABLE_TIMING);
	if (!event) {
		sim_shared_event_unref(shared);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->shared = shared;
	*phEvent = (CUevent)(void *)event;
	return CUDA_SUCCESS;
}

/* An external record is a node that records when the graph runs. */
static CUresult capture_record(struct sim_stream *stream, struct sim_event *event, bool external)
{
	struct sim_op mark = {.kind = SIM_OP_MARK};
	struct sim_node *node;
	CUresult result;

	if (!external)
		return sim_capture_record(stream, event);
	result = sim_capture_add(stream, &mark, &node);
	if (result == CUDA_SUCCESS) {
		node->type = CU_GRAPH_NODE_TYPE_EVENT_RECORD;
		node->event = event;
	}
	return result;
}

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
	struct sim_op mark = {.kind = SIM_OP_MARK};
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);
	struct sim_event *event = event_of(hEvent);
	struct sim_work *work;

	if (!stream)
		return result;
	if (!event || event->ctx != stream->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return capture_record(stream, event, flags & CU_EVENT_RECORD_EXTERNAL);
	result = sim_stream_submit(stream, &mark, &work);
	if (result != CUDA_SUCCESS)
		return result;
	sim_capture_forget_event(event);
	sim_event_store(event, work);
	sim_work_unref(work);
	return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream)
{
	return sim_cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult sim_cuEventQuery(CUevent hEvent)
{
	struct sim_event *event = event_of(hEvent);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->ctx->error)
		return event->ctx->error;
	if (event->capture)
		return sim_capture_check_event(event);
	return sim_work_is_seen_done(sim_event_work(event)) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent hEvent)
{
	struct sim_event *event = event_of(hEvent);
	struct sim_work *work;
	struct sim_ctx *ctx;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return sim_capture_check_event(event);
	ctx = event->ctx;
	work = sim_event_work(event);
	if (work)
		sim_work_wait(work);
	return ctx->error;
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct sim_event *start = event_of(hStart);
	struct sim_event *end = event_of(hEnd);

	if (!pMilliseconds)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !end || !start->work || !end->work ||
	    ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!sim_work_is_seen_done(start->work) || !sim_work_is_seen_done(end->work))
		return CUDA_ERROR_NOT_READY;
	*pMilliseconds = (float)((double)(int64_t)(end->work->end_ns - start->work->end_ns) / 1e6);
	return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	return sim_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

CUresult sim_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct sim_ctx *ctx = sim_ctx_of(hCtx);
	struct sim_event *event = event_of(hEvent);
	struct sim_work *mark;
	CUresult result;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!event || event->ctx != ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	result = ctx->error ? ctx->error : sim_capture_check_context(ctx);
	if (result != CUDA_SUCCESS)
		return result;
	mark = sim_ctx_mark(ctx);
	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_capture_forget_event(event);
	sim_event_store(event, mark);
	sim_work_unref(mark);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	static const struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_ctx *ctx = sim_ctx_of(hCtx);
	struct sim_event *event = event_of(hEvent);
	struct sim_work *gate;
	CUresult result;

	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	result = ctx->error ? ctx->error : sim_capture_check_context(ctx);
	if (result == CUDA_SUCCESS)
		result = sim_capture_check_event(event);
	if (result != CUDA_SUCCESS)
		return result;
	gate = sim_work_create(ctx, &op);
	if (!gate)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_work_after(gate, ctx->gate);
	sim_work_after(gate, sim_event_work(event));
	sim_work_commit(gate);
	sim_work_store(&ctx->gate, gate);
	sim_work_unref(gate);
	return CUDA_SUCCESS;
}
