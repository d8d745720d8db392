/* SPDX-License-Identifier: MIT */
#include "interpose/driver/host_work.h"

#include "allocator/base/lock.h"
#include "interpose/core/cancel.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context_registry.h"
#include "interpose/driver/current.h"

#define STREAMS_MAX 32 /* of a context; more are waited for as one */

/* Names all streams of a context: destroyed ones, and those for which it has no row left. */
#define ANY_STREAM ((CUstream)0)

_Atomic bool cm_host_work_kernels;
_Atomic bool cm_host_work_is_off;
/* Set once a free had to wait for other work behind the work that the host can see: from then on
 * an event is recorded between the two. A program that never does this pays for no event. */
static _Atomic bool marks;

/* A stream that has or had such work. Its work is numbered from 1. */
struct row {
	CUstream stream;    /* ANY_STREAM, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle */
	uint32_t thread;    /* of CU_STREAM_PER_THREAD, else 0 */
	uint64_t submitted; /* the number of its last work */
	uint64_t done;      /* work up to this number is finished */
	uint64_t marked;    /* the event stands behind the work of this number; 0: of none */
	bool followed;      /* other work was submitted since */
	CUevent event;      /* of the context; a thread that uses it takes it out meanwhile */
};

/* If there are more contexts than rows, nothing is cached (context.h). A thread that keeps a row
 * without the lock has pinned the context. */
static struct context {
	uint64_t ctx; /* 0: unused */
	CUdevice device;
	uint32_t streams; /* rows ever used */
	struct row row[STREAMS_MAX];
} contexts[CM_FENCE_CONTEXTS];
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_HOST_WORK); /* guards the table */

static bool has_work(const struct row *row)
{
	return row->submitted != row->done;
}

static void count_locked(void)
{
	uint32_t n = 0, i, s;

	for (i = 0; i < CM_FENCE_CONTEXTS; i++)
		for (s = 0; contexts[i].ctx && s < contexts[i].streams; s++)
			n += has_work(&contexts[i].row[s]);
	/* A thread that sees that there is work takes the lock after this one. */
	(void)cm_unusual_set(CM_UNUSUAL_HOST_WORK, n != 0);
}

/* The name of a stream: the handle 0 means two things. */
static CUstream name_of(CUstream stream, bool per_thread)
{
	if (stream)
		return stream;
	return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

static bool is_special(CUstream stream)
{
	return stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
}

/* A number that no later thread has, unlike the system's: the stream of a thread that has ended is
 * not that of another one. */
static uint32_t thread_of(CUstream stream)
{
	static _Atomic uint32_t last;
	static __thread uint32_t own;

	if (stream != CU_STREAM_PER_THREAD)
		return 0;
	if (!own)
		own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	return own;
}

static struct context *find_context_locked(uint64_t ctx)
{
	size_t i;

	for (i = 0; i < CM_FENCE_CONTEXTS; i++)
		if (contexts[i].ctx == ctx)
			return &contexts[i];
	return NULL;
}

static struct row *find_row_locked(struct context *context, CUstream stream)
{
	const uint32_t thread = thread_of(stream);
	uint32_t s;

	for (s = 0; s < context->streams; s++)
		if (context->row[s].stream == stream && context->row[s].thread == thread)
			return &context->row[s];
	return NULL;
}

/* The row of a stream of any context; NULL if it has none. */
static struct row *find_locked(CUstream stream, uint64_t *ret_ctx)
{
	const uint64_t ctx = is_special(stream) ? cm_context_current() : 0;
	struct row *row = NULL;
	size_t i;

	for (i = 0; i < CM_FENCE_CONTEXTS && !row; i++) {
		if (contexts[i].ctx && (!ctx || contexts[i].ctx == ctx))
			row = find_row_locked(&contexts[i], stream);
		if (row)
			*ret_ctx = contexts[i].ctx;
	}
	return row;
}

/* From here on the row stands for all streams of its context. It keeps its event. */
static void widen_locked(struct row *row)
{
	row->stream = ANY_STREAM;
	row->thread = 0;
}

/* A row for a stream that has none: an unused or idle one. If all have work, the first one stands
 * for all streams of the context from here on. */
static struct row *add_row_locked(struct context *context, CUstream stream)
{
	struct row *row = NULL;
	uint32_t s;

	for (s = 0; s < context->streams && !row; s++)
		if (!has_work(&context->row[s]))
			row = &context->row[s];
	if (!row && context->streams < STREAMS_MAX)
		row = &context->row[context->streams++];
	if (!row) {
		widen_locked(&context->row[0]);
		return &context->row[0];
	}
	row->stream = stream;
	row->thread = thread_of(stream);
	return row;
}

/* NULL for a context that is not registered, since its end would go unnoticed. */
static struct context *add_context_locked(uint64_t ctx)
{
	struct context *context = find_context_locked(ctx);
	struct cm_known_context known;

	if (context)
		return context;
	known = cm_registry_read((CUcontext)(uintptr_t)ctx);
	context = known.ctx ? find_context_locked(0) : NULL;
	if (context)
		*context = (struct context){.ctx = ctx, .device = known.device};
	return context;
}

void cm_host_work_disable(void)
{
	atomic_store_explicit(&cm_host_work_is_off, true, memory_order_relaxed);
	(void)cm_unusual_set(CM_UNUSUAL_HOST_WORK, false);
}

void cm_host_work_include_kernels(void)
{
	atomic_store_explicit(&cm_host_work_kernels, true, memory_order_relaxed);
}

static void note_locked(struct row *row)
{
	const bool first = !has_work(row);

	row->submitted++;
	row->followed = false;
	if (first)
		count_locked();
}

void cm_host_work_note(CUstream stream, bool per_thread)
{
	const CUstream name = name_of(stream, per_thread);
	struct context *context;
	struct row *row;
	uint64_t ctx;

	if (cm_capture_takes_work(stream, per_thread))
		return;
	cm_lock_acquire(&lock);
	row = find_locked(name, &ctx);
	if (row)
		note_locked(row);
	cm_lock_release(&lock);
	ctx = row ? 0 : cm_context_of_stream(name);
	if (!ctx)
		return;
	cm_lock_acquire(&lock);
	context = add_context_locked(ctx);
	row = context ? find_row_locked(context, name) : NULL;
	if (context && !row)
		row = add_row_locked(context, name);
	if (row)
		note_locked(row);
	cm_lock_release(&lock);
}

/* A row whose work is marked or waited for without the lock. */
struct wait {
	uint64_t ctx; /* pinned meanwhile */
	CUstream stream;
	uint32_t thread;
	uint64_t number; /* of its work */
	bool is_marked;  /* the event stands behind that */
	bool followed;
	CUevent event;   /* in this thread's hands; NULL: none was made yet */
	CUresult failed; /* a sticky error that the driver answered with */
};

static struct wait take_locked(uint64_t ctx, struct row *row)
{
	struct wait wait = {.ctx = ctx,
			    .stream = row->stream,
			    .thread = row->thread,
			    .number = row->submitted,
			    .is_marked = row->event && row->marked == row->submitted,
			    .followed = row->followed,
			    .event = row->event};

	row->event = NULL;
	return wait;
}

/* Puts the event back into the row. If two threads found none and made one each, the row keeps
 * the first one, and this returns the other one, which the caller destroys without the lock. */
static CUevent give_back_locked(struct row *row, const struct wait *wait)
{
	if (row->event)
		return wait->event;
	row->event = wait->event;
	row->marked = wait->is_marked ? wait->number : 0;
	return NULL;
}

static void destroy(CUevent event)
{
	if (event)
		(void)cm_real.cuEventDestroy_v2(event);
}

/* Records the event behind all that was submitted to the row's stream. Its context is current. */
static bool record(struct wait *wait)
{
	CUresult res = CUDA_SUCCESS;

	if (!wait->event)
		res = cm_real.cuEventCreate(&wait->event, CU_EVENT_DISABLE_TIMING);
	if (res != CUDA_SUCCESS)
		wait->event = NULL;
	else if (wait->stream != ANY_STREAM && wait->thread == thread_of(wait->stream))
		res = cm_real.cuEventRecord(wait->event, wait->stream);
	else if (cm_real_has(cuCtxRecordEvent))
		res = cm_real.cuCtxRecordEvent((CUcontext)(uintptr_t)wait->ctx, wait->event);
	else
		res = CUDA_ERROR_NOT_SUPPORTED;
	wait->is_marked = res == CUDA_SUCCESS;
	return wait->is_marked;
}

/* Whether to record an event behind the row's work: not if there is one already, and not before
 * a free has waited for longer than necessary. */
static bool wants_mark_locked(struct row *row)
{
	if (!row || !has_work(row) || (row->event && row->marked == row->submitted))
		return false;
	row->followed = true;
	return atomic_load_explicit(&marks, memory_order_relaxed);
}

/* Inside the gate. */
static void mark(CUstream stream)
{
	struct wait wait;
	CUcontext ctx;
	CUevent left;
	struct row *row;
	uint64_t found;

	cm_lock_acquire(&lock);
	row = find_locked(stream, &found);
	ctx = row ? (CUcontext)(uintptr_t)found : NULL;
	if (!wants_mark_locked(row) || !cm_registry_pin(ctx)) {
		cm_lock_release(&lock);
		return;
	}
	wait = take_locked(found, row);
	cm_lock_release(&lock);
	if (!cm_context_push(found)) {
		(void)record(&wait);
		cm_context_pop();
	}
	cm_lock_acquire(&lock);
	left = give_back_locked(row, &wait);
	cm_lock_release(&lock);
	destroy(left);
	cm_registry_unpin_all(&ctx, 1);
}

void cm_host_work_before_other(CUstream stream, bool per_thread)
{
	if (!cm_capture_gate_enter())
		return;
	cm_cancel_hold();
	mark(name_of(stream, per_thread));
	cm_cancel_allow();
	cm_capture_gate_leave();
}

/* CUDA_ERROR_NOT_READY: the work is under way, and the event stands behind it. An error that is not
 * sticky says nothing about the work. The context is current and the gate entered. */
static CUresult ask_driver(struct wait *wait)
{
	CUresult res = CUDA_ERROR_NOT_READY;

	if (wait->is_marked)
		res = cm_real.cuEventQuery(wait->event);
	else if (wait->stream != ANY_STREAM && wait->thread == thread_of(wait->stream))
		res = cm_real.cuStreamQuery(wait->stream);
	if (res == CUDA_ERROR_NOT_READY && !wait->is_marked) {
		if (wait->followed)
			atomic_store_explicit(&marks, true, memory_order_relaxed);
		if (record(wait))
			return res;
	}
	if (res == CUDA_SUCCESS || cm_context_is_sticky(res) || wait->is_marked)
		return res;
	return cm_real.cuCtxSynchronize();
}

/* Waits in relaxed capture mode: our event belongs to no capture, and no capture that it would harm
 * may begin on the streams meanwhile. Does not wait while a capture is active; the work goes on. */
static CUresult wait_for(struct wait *wait)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult res;

	if (!cm_capture_gate_enter())
		return CUDA_ERROR_NOT_READY;
	res = (CUresult)cm_context_push(wait->ctx);
	if (res == CUDA_SUCCESS) {
		res = ask_driver(wait);
		cm_context_pop();
	}
	cm_capture_gate_leave();
	if (res != CUDA_ERROR_NOT_READY || !wait->is_marked)
		return res;
	(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
	res = cm_real.cuEventSynchronize(wait->event);
	(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
	return res;
}

/* Waits for a row of a pinned context. The lock is held, except during the wait. */
CM_REQUIRES(lock)
static CUresult await_row_locked(const struct context *context, struct row *row)
{
	struct wait wait = take_locked(context->ctx, row);
	const uint64_t number = wait.number;
	CUresult res;
	CUevent left;

	cm_lock_release(&lock);
	res = wait_for(&wait);
	cm_lock_acquire(&lock);
	left = give_back_locked(row, &wait);
	if ((res == CUDA_SUCCESS || cm_context_is_sticky(res)) && row->done < number)
		row->done = number;
	if (left) {
		cm_lock_release(&lock);
		destroy(left);
		cm_lock_acquire(&lock);
	}
	return cm_context_is_sticky(res) || res == CUDA_ERROR_NOT_READY ? res : CUDA_SUCCESS;
}

CM_REQUIRES(lock)
static CUresult await_context_locked(struct context *context)
{
	const CUcontext ctx = (CUcontext)(uintptr_t)context->ctx;
	CUresult res = CUDA_SUCCESS;
	uint32_t s;

	/* A context that another thread destroys: that call waits for its work. */
	if (!ctx || !cm_registry_pin(ctx))
		return CUDA_SUCCESS;
	for (s = 0; s < context->streams && res == CUDA_SUCCESS; s++)
		if (has_work(&context->row[s]))
			res = await_row_locked(context, &context->row[s]);
	cm_registry_unpin_all(&ctx, 1);
	return res;
}

CUresult cm_host_work_await(CUdevice device, uint64_t *ret_ctx)
{
	CUresult res = CUDA_SUCCESS;
	uint64_t ctx;
	size_t i;

	if (cm_capture_is_active())
		return CUDA_ERROR_NOT_READY;
	cm_cancel_hold();
	cm_lock_acquire(&lock);
	for (i = 0; i < CM_FENCE_CONTEXTS && res == CUDA_SUCCESS; i++) {
		if (contexts[i].device != device)
			continue;
		ctx = contexts[i].ctx;
		res = await_context_locked(&contexts[i]);
		if (res != CUDA_SUCCESS)
			*ret_ctx = ctx;
	}
	count_locked();
	cm_lock_release(&lock);
	cm_cancel_allow();
	return res;
}

void cm_host_work_forget_stream(CUstream stream)
{
	struct row *row;
	uint64_t ctx;

	/* Also if it is idle: a stream of another context may get its handle next. */
	cm_lock_acquire(&lock);
	row = find_locked(name_of(stream, false), &ctx);
	if (row)
		widen_locked(row);
	cm_lock_release(&lock);
}

void cm_host_work_forget_context(uint64_t ctx)
{
	struct context *context;

	cm_lock_acquire(&lock);
	context = find_context_locked(ctx);
	if (context)
		*context = (struct context){0};
	count_locked();
	cm_lock_release(&lock);
}

void cm_host_work_forget_all(void)
{
	size_t i;

	cm_lock_init(&lock, CM_LOCK_HOST_WORK, 0);
	for (i = 0; i < CM_FENCE_CONTEXTS; i++)
		contexts[i] = (struct context){0};
	(void)cm_unusual_set(CM_UNUSUAL_HOST_WORK, false);
}
