/* SPDX-License-Identifier: MIT */
#include "context.h"

#include "checker.h"
#include "event.h"
#include "memory.h"
#include "module.h"
#include "plan.h"
#include "stream.h"
#include "vector.h"

/* CUcontext versions as cuCtxGetApiVersion tells them. */
enum { API_VERSION = 3020 };

static const struct sim_current *top(const struct sim_thread *self)
{
	return self->depth ? &self->stack[self->depth - 1] : NULL;
}

static bool is_alive(const struct sim_current *current)
{
	return sim_object_is(current->ctx, SIM_CONTEXT) && current->ctx->object.id == current->id;
}

struct sim_ctx *sim_ctx_current(void)
{
	const struct sim_current *current = top(sim_thread_self());

	return current && current->ctx && is_alive(current) ? current->ctx : NULL;
}

struct sim_ctx *sim_ctx_of(CUcontext handle)
{
	if (!handle)
		return sim_ctx_current();
	return sim_object_is(handle, SIM_CONTEXT) ? (struct sim_ctx *)(void *)handle : NULL;
}

CUresult sim_ctx_check(const struct sim_thread *self)
{
	const struct sim_current *current = top(self);

	if (!current || !current->ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return is_alive(current) ? current->ctx->error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void come_after_all(struct sim_work *work, const struct sim_ctx *ctx)
{
	for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next)
		sim_work_after(work, stream->tail);
	sim_work_after(work, ctx->unreclaimed);
	sim_vector_join(&work->vector, ctx->left);
}

static const struct sim_op mark_op = {.kind = SIM_OP_MARK};

struct sim_work *sim_ctx_mark(struct sim_ctx *ctx)
{
	struct sim_work *mark = sim_work_create(ctx, &mark_op);

	if (!mark)
		return NULL;
	come_after_all(mark, ctx);
	sim_work_commit(mark);
	return mark;
}

CUresult sim_ctx_synchronize(struct sim_ctx *ctx)
{
	struct sim_work *mark = sim_ctx_mark(ctx);

	if (!mark)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sim_work_wait(mark);
	sim_work_unref(mark);
	return ctx->error;
}

/* One mark for all contexts: while it is waited for, contexts may come and go. NULL: none. */
static struct sim_work *device_mark(struct sim_device *device)
{
	struct sim_work *mark = NULL;

	for (struct sim_ctx *ctx = device->contexts; ctx; ctx = ctx->next) {
		if (!ctx->running && !sim_checking)
			continue;
		if (!mark)
			mark = sim_work_create(ctx, &mark_op);
		if (mark)
			come_after_all(mark, ctx);
	}
	if (mark)
		sim_work_commit(mark);
	return mark;
}

void sim_device_synchronize(struct sim_device *device)
{
	struct sim_work *mark = device_mark(device);

	if (mark)
		sim_work_wait(mark);
	sim_work_unref(mark);
}

void sim_device_drain(struct sim_device *device)
{
	struct sim_work *mark = device_mark(device);

	if (mark)
		sim_work_await(mark);
	sim_work_unref(mark);
}

static struct sim_ctx *create(struct sim_device *device, unsigned flags)
{
	struct sim_ctx *ctx;

	if (!sim_vram_charge(&device->vram, sim_plan.context))
		return NULL;
	ctx = sim_object_create(SIM_CONTEXT, sizeof(*ctx));
	if (!ctx)
		goto err_uncharge;
	ctx->device = device;
	ctx->flags = flags;
	ctx->version = API_VERSION;
	ctx->limits[CU_LIMIT_STACK_SIZE] = 1024;
	ctx->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	ctx->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	ctx->legacy = sim_stream_create(ctx, CU_STREAM_DEFAULT, 0);
	if (!ctx->legacy)
		goto err_object;
	ctx->next = device->contexts;
	device->contexts = ctx;
	return ctx;

err_object:
	sim_object_destroy(ctx);
err_uncharge:
	sim_vram_uncharge(&device->vram, sim_plan.context);
	return NULL;
}

void sim_ctx_tell_end(struct sim_ctx *ctx)
{
	struct sim_vector *works = NULL;

	for (struct sim_stream *stream = ctx->streams; stream; stream = stream->next) {
		if (stream->tail)
			sim_vector_join(&works, stream->tail->vector);
	}
	sim_vector_join(&works, ctx->left);
	sim_checker_ended(works);
	sim_vector_unref(works);
}

static void destroy(struct sim_ctx *ctx)
{
	struct sim_ctx **link = &ctx->device->contexts;

	sim_work_end_context(ctx);
	sim_ctx_tell_end(ctx);
	while (ctx->events)
		sim_event_destroy(ctx->events);
	while (ctx->streams)
		sim_stream_destroy(ctx->streams);
	sim_work_unref(ctx->gate);
	sim_work_unref(ctx->unreclaimed);
	sim_vector_unref(ctx->left);
	while (ctx->modules)
		sim_module_destroy(ctx->modules);
	while (ctx->memory)
		sim_mem_free(ctx->memory);
	while (*link != ctx)
		link = &(*link)->next;
	*link = ctx->next;
	sim_vram_uncharge(&ctx->device->vram, sim_plan.context);
	sim_object_destroy(ctx);
}

/* Puts a context, or none, on the thread's stack; replaces the topmost one unless `push`. */
static CUresult make_current(struct sim_ctx *ctx, bool push)
{
	struct sim_thread *self = sim_thread_self();

	if (push || !self->depth) {
		if (self->depth == SIM_STACK_DEPTH)
			return CUDA_ERROR_INVALID_VALUE;
		self->depth++;
	}
	self->stack[self->depth - 1] = (struct sim_current){.ctx = ctx,
							    .id = ctx ? ctx->object.id : 0};
	return CUDA_SUCCESS;
}

static void pop(struct sim_thread *self)
{
	if (self->depth)
		self->depth--;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);
	struct sim_ctx *ctx;
	CUresult result;

	if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	ctx = create(device, flags);
	if (!ctx)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = make_current(ctx, true);
	if (result != CUDA_SUCCESS) {
		destroy(ctx);
		return result;
	}
	*pctx = sim_ctx_handle(ctx);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
	return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
			    unsigned int flags, CUdevice dev)
{
	if (numParams < 0 || (numParams && !paramsArray))
		return CUDA_ERROR_INVALID_VALUE;
	return numParams ? CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY
			 : sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
			    CUdevice dev)
{
	/* There are no graphics here to share it with: it is like any other. */
	if (ctxCreateParams && ctxCreateParams->numExecAffinityParams)
		return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
	return sim_cuCtxCreate_v2(pctx, flags, dev);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx)
{
	struct sim_thread *self = sim_thread_self();
	const struct sim_current *current = top(self);
	struct sim_ctx *stolen_part = ctx ? sim_ctx_of(ctx) : NULL;

	if (!stolen_part)
		return ctx ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_INVALID_VALUE;
	if (stolen_part->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (current && current->ctx == stolen_part && current->id == stolen_part->object.id)
		pop(self);
	destroy(stolen_part);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxDestroy(CUcontext ctx)
{
	return sim_cuCtxDestroy_v2(ctx);
}

CUresult sim_cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
	struct sim_ctx *ctx = sim_ctx_current();

	if (!pctx || flags)
		return CUDA_ERROR_INVALID_VALUE;
	ctx->users++;
	*pctx = sim_ctx_handle(ctx);
	return CUDA_SUCCESS;
}

/* The last one ends the context. It must be current. */
CUresult sim_cuCtxDetach(CUcontext ctx)
{
	struct sim_ctx *left = ctx ? sim_ctx_of(ctx) : NULL;

	if (!left || left != sim_ctx_current() || left->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!left->users)
		return sim_cuCtxDestroy_v2(ctx);
	left->users--;
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx)
{
	struct sim_ctx *pushed = ctx ? sim_ctx_of(ctx) : NULL;

	return pushed ? make_current(pushed, true) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxPushCurrent(CUcontext ctx)
{
	return sim_cuCtxPushCurrent_v2(ctx);
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx)
{
	struct sim_thread *self = sim_thread_self();
	const struct sim_current *current = top(self);

	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (pctx)
		*pctx = sim_ctx_handle(current->ctx);
	pop(self);
	return CUDA_SUCCESS;
}

CUresult sim_cuCtxPopCurrent(CUcontext *pctx)
{
	return sim_cuCtxPopCurrent_v2(pctx);
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx)
{
	struct sim_ctx *current = ctx ? sim_ctx_of(ctx) : NULL;

	if (!ctx) {
		pop(sim_thread_self());
		return CUDA_SUCCESS;
	}
	return current ? make_current(current, false) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx)
{
	const struct sim_current *current = top(sim_thread_self());

	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	*pctx = current ? sim_ctx_handle(current->ctx) : NULL;
	return CUDA_SUCCESS;
}

static CUresult retain_primary(struct sim_device *device)
{
	if (!device->primary) {
		device->primary = create(device, device->primary_flags);
		if (!device->primary)
			return CUDA_ERROR_OUT_OF_MEMORY;
		device->primary->primary = true;
	}
	device->primary_refs++;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);
	CUresult result;

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pctx)
		return CUDA_ERROR_INVALID_VALUE;
	result = retain_primary(device);
	if (result == CUDA_SUCCESS)
		*pctx = sim_ctx_handle(device->primary);
	return result;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!device->primary_refs)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (--device->primary_refs == 0 && device->primary) {
		destroy(device->primary);
		device->primary = NULL;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxRelease(CUdevice dev)
{
	return sim_cuDevicePrimaryCtxRelease_v2(dev);
}

/* Resets, but "does not release it", as cuda.h says: the references stay. */
CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!device->primary)
		return CUDA_SUCCESS;
	destroy(device->primary);
	device->primary = NULL;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxReset(CUdevice dev)
{
	return sim_cuDevicePrimaryCtxReset_v2(dev);
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
	struct sim_device *device = sim_device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = device->primary_flags;
	*active = device->primary != NULL;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
	struct sim_device *device = sim_device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	device->primary_flags = flags;
	if (device->primary)
		device->primary->flags = flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
	return sim_cuDevicePrimaryCtxSetFlags_v2(dev, flags);
}
