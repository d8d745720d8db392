/* SPDX-License-Identifier: MIT */
#include "stream.h"

#include "capture.h"
#include "checker.h"
#include "context.h"
#include "event.h"
#include "vector.h"

enum { LEAST_PRIORITY = 0, GREATEST_PRIORITY = -5 };

struct sim_stream *sim_stream_create(struct sim_ctx *ctx, unsigned flags, int priority)
{
	struct sim_stream *stream = sim_object_create(SIM_STREAM, sizeof(*stream));

	if (!stream)
		return NULL;
	stream->ctx = ctx;
	stream->flags = flags;
	stream->priority = priority;
	stream->next = ctx->streams;
	ctx->streams = stream;
	return stream;
}

/* The context still has to wait for what a destroyed stream left running. */
static void leave_unreclaimed(struct sim_stream *stream)
{
	static const struct sim_op mark = {.kind = SIM_OP_MARK};
	struct sim_ctx *ctx = stream->ctx;
	struct sim_work *join;

	/* Also what is done by now: it may be the clock alone that knows. */
	if (stream->tail)
		sim_vector_join(&ctx->left, stream->tail->vector);
	if (sim_work_is_done(stream->tail))
		return;
	if (sim_work_is_done(ctx->unreclaimed)) {
		sim_work_store(&ctx->unreclaimed, stream->tail);
		return;
	}
	join = sim_work_create(ctx, &mark);
	if (!join)
		return;
	sim_work_after(join, ctx->unreclaimed);
	sim_work_after(join, stream->tail);
	sim_work_commit(join);
	sim_work_store(&ctx->unreclaimed, join);
	sim_work_unref(join);
}

void sim_stream_destroy(struct sim_stream *stream)
{
	struct sim_stream **link = &stream->ctx->streams;

	sim_capture_leave(stream);
	leave_unreclaimed(stream);
	while (*link != stream)
		link = &(*link)->next;
	*link = stream->next;
	sim_work_unref(stream->tail);
	sim_line_leave(&stream->line);
	sim_object_destroy(stream);
}

static struct sim_stream *per_thread_stream(struct sim_ctx *ctx, uint64_t thread)
{
	struct sim_stream *stream = ctx->streams;

	while (stream && stream->thread != thread)
		stream = stream->next;
	if (stream)
		return stream;
	stream = sim_stream_create(ctx, CU_STREAM_DEFAULT, 0);
	if (stream)
		stream->thread = thread;
	return stream;
}

struct sim_stream *sim_stream_of(CUstream handle, CUresult *ret_error)
{
	struct sim_thread *self = sim_thread_self();
	struct sim_ctx *ctx = sim_ctx_current();
	struct sim_stream *stream = NULL;

	*ret_error = CUDA_ERROR_INVALID_HANDLE;
	if (sim_object_is(handle, SIM_STREAM)) {
		stream = (struct sim_stream *)(void *)handle;
		*ret_error = stream->ctx->error;
		return *ret_error ? NULL : stream;
	}
	if (!ctx) {
		*ret_error = CUDA_ERROR_INVALID_CONTEXT;
	} else if (handle == CU_STREAM_LEGACY || (!handle && !self->per_thread)) {
		stream = ctx->legacy;
	} else if (handle == CU_STREAM_PER_THREAD || !handle) {
		stream = per_thread_stream(ctx, self->id);
		*ret_error = CUDA_ERROR_OUT_OF_MEMORY;
	}
	return stream;
}

static bool is_blocking(const struct sim_stream *stream)
{
	return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

void sim_stream_order(const struct sim_stream *stream, struct sim_work *work)
{
	const struct sim_ctx *ctx = stream->ctx;

	sim_work_after(work, ctx->gate);
	sim_work_after(work, stream->tail);
	if (stream != ctx->legacy) {
		if (is_blocking(stream))
			sim_work_after(work, ctx->legacy->tail);
		return;
	}
	for (const struct sim_stream *other = ctx->streams; other; other = other->next) {
		if (other != stream && is_blocking(other))
			sim_work_after(work, other->tail);
	}
}

CUresult sim_stream_submit(struct sim_stream *stream, struct sim_op *op, struct sim_work **ret_work)
{
	CUresult result = sim_capture_check_stream(stream);
	struct sim_work *work;

	if (stream->capture && !ret_work)
		return sim_capture_add(stream, op, NULL);
	if (stream->capture)
		result = sim_capture_refuse(stream);
	work = result == CUDA_SUCCESS ? sim_work_create(stream->ctx, op) : NULL;
	if (!work) {
		sim_op_release(op);
		return result == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : result;
	}
	sim_stream_order(stream, work);
	sim_checker_submitted(work, stream, &stream->line, false);
	sim_work_commit(work);
	sim_work_store(&stream->tail, work);
	if (ret_work)
		*ret_work = work;
	else
		sim_work_unref(work);
	return CUDA_SUCCESS;
}

CUresult sim_stream_submit_and_wait(struct sim_stream *stream, struct sim_op *op)
{
	struct sim_ctx *ctx = stream->ctx;
	struct sim_work *work;
	CUresult result = sim_stream_submit(stream, op, &work);

	if (result != CUDA_SUCCESS)
		return result;
	sim_work_wait(work);
	sim_work_unref(work);
	return ctx->error;
}

CUresult sim_stream_mark(struct sim_stream *stream, struct sim_work **ret_mark)
{
	static const struct sim_op mark = {.kind = SIM_OP_MARK};
	CUresult result = sim_capture_refuse(stream);
	struct sim_work *work;

	if (result != CUDA_SUCCESS)
		return result;
	work = sim_work_create(stream->ctx, &mark);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_stream_order(stream, work);
	sim_work_commit(work);
	*ret_mark = work;
	return CUDA_SUCCESS;
}

CUresult sim_stream_wait(struct sim_stream *stream)
{
	struct sim_ctx *ctx = stream->ctx;
	struct sim_work *mark;
	CUresult result = sim_stream_mark(stream, &mark);

	if (result != CUDA_SUCCESS)
		return result;
	sim_work_wait(mark);
	sim_work_unref(mark);
	return ctx->error;
}

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
	struct sim_stream *stream;

	if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	if (priority > LEAST_PRIORITY)
		priority = LEAST_PRIORITY;
	if (priority < GREATEST_PRIORITY)
		priority = GREATEST_PRIORITY;
	stream = sim_stream_create(sim_ctx_current(), flags, priority);
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*phStream = (CUstream)(void *)stream;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream hStream)
{
	if (!sim_object_is(hStream, SIM_STREAM))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_stream_destroy((struct sim_stream *)(void *)hStream);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamDestroy(CUstream hStream)
{
	return sim_cuStreamDestroy_v2(hStream);
}

CUresult sim_cuStreamSynchronize(CUstream hStream)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	return stream ? sim_stream_wait(stream) : error;
}

CUresult sim_cuStreamQuery(CUstream hStream)
{
	struct sim_work *mark;
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);
	bool done;

	if (!stream)
		return error;
	error = sim_stream_mark(stream, &mark);
	if (error != CUDA_SUCCESS)
		return error;
	done = sim_work_is_seen_done(mark);
	sim_work_unref(mark);
	if (stream->ctx->error)
		return stream->ctx->error;
	return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	static const struct sim_op mark = {.kind = SIM_OP_MARK};
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);
	struct sim_event *event = (struct sim_event *)(void *)hEvent;
	struct sim_work *work;

	if (!stream)
		return error;
	if (!sim_object_is(hEvent, SIM_EVENT))
		return CUDA_ERROR_INVALID_HANDLE;
	if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture || event->capture)
		return sim_capture_wait(stream, event, Flags & CU_EVENT_WAIT_EXTERNAL);
	error = sim_capture_check_stream(stream);
	if (error != CUDA_SUCCESS)
		return error;
	work = sim_work_create(stream->ctx, &mark);
	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_stream_order(stream, work);
	sim_work_after(work, sim_event_work(event));
	sim_work_commit(work);
	sim_work_store(&stream->tail, work);
	sim_work_unref(work);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream || !flags)
		return stream ? CUDA_ERROR_INVALID_VALUE : error;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream || !priority)
		return stream ? CUDA_ERROR_INVALID_VALUE : error;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream || !pctx)
		return stream ? CUDA_ERROR_INVALID_VALUE : error;
	*pctx = sim_ctx_handle(stream->ctx);
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream || !streamId)
		return stream ? CUDA_ERROR_INVALID_VALUE : error;
	*streamId = stream->object.id;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
	CUresult error;
	struct sim_stream *stream = sim_stream_of(hStream, &error);

	if (!stream || !device)
		return stream ? CUDA_ERROR_INVALID_VALUE : error;
	*device = stream->ctx->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	if (leastPriority)
		*leastPriority = LEAST_PRIORITY;
	if (greatestPriority)
		*greatestPriority = GREATEST_PRIORITY;
	return CUDA_SUCCESS;
}
