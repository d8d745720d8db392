/* SPDX-License-Identifier: MIT */
#include "interpose/driver/host_work.h"

#include "allocator/base/lock.h"
#include "allocator/reuse/fence.h"
#include "interpose/core/cancel.h"
#include "interpose/driver/capture.h"
#include "interpose/driver/context_registry.h"
#include "interpose/driver/current.h"

#define STREAMS_MAX 32 /* of a context; more are waited for as one */

/* Names all streams of a context: those that are gone, and more than a context has rows for. */
#define ANY_STREAM ((CUstream)0)

_Atomic uint32_t cm_host_work_streams;
_Atomic bool cm_host_work_kernels;
_Atomic bool cm_host_work_is_off;
/* Set once a free has waited for a stream to which more had been submitted since: from then on an
 * event is recorded between the two. A program that never does this pays for no event. */
static _Atomic bool marks;

/* A stream that has or had noted work, which is done up to number `done`. */
struct row {
	CUstream stream; /* ANY_STREAM, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD or a handle */
	uint32_t thread; /* of CU_STREAM_PER_THREAD, else 0 */
	uint32_t users;  /* threads that wait for its event without the lock */
	uint64_t noted;
	uint64_t done;
	uint64_t marked; /* the event stands behind the work of this number; 0: of none */
	bool followed;   /* other work was submitted since */
	CUevent event;   /* of the context; stays with the row */
};

/* Contexts beyond the table are none of ours: nothing is cached then (context.h). */
static struct context {
	uint64_t ctx; /* 0: unused */
	CUdevice device;
	uint32_t streams; /* rows ever used */
	struct row row[STREAMS_MAX];
} contexts[CM_FENCE_CONTEXTS];
static struct cm_lock lock = CM_LOCK_FREE(CM_LOCK_HOST_WORK); /* guards the table */

static bool has_work(const struct row *row)
{
	return row->noted != row->done;
}

static void count_locked(void)
{
	uint32_t n = 0, i, s;

	for (i = 0; i < CM_FENCE_CONTEXTS; i++)
		for (s = 0; contexts[i].ctx && s < contexts[i].streams; s++)
			n += has_work(&contexts[i].row[s]);
	/* Release: who sees that there is work takes the lock after this one. */
	atomic_store_explicit(&cm_host_work_streams, n, memory_order_release);
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

static uint32_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? cm_thread_id() : 0;
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

/* The row of a stream whose context may be any; NULL where it has none. */
static struct row *find_locked(CUstream stream)
{
	const uint64_t ctx = is_special(stream) ? cm_context_current() : 0;
	struct row *row = NULL;
	size_t i;

	for (i = 0; i < CM_FENCE_CONTEXTS && !row; i++)
		if (contexts[i].ctx && (!ctx || contexts[i].ctx == ctx))
			row = find_row_locked(&contexts[i], stream);
	return row;
}

/* The row stands for all streams of its context from here on. */
static void widen_locked(struct row *row)
{
	row->stream = ANY_STREAM;
	row->thread = 0;
	row->marked = 0;
}

/* A row for a stream that has none: an unused or an idle one; where all have work the first one
 * stands for all streams of the context from here on. */
static struct row *add_row_locked(struct context *context, CUstream stream)
{
	struct row *row = NULL;
	uint32_t s;

	for (s = 0; s < context->streams && !row; s++)
		if (!has_work(&context->row[s]) && !context->row[s].users)
			row = &context->row[s];
	if (!row && context->streams < STREAMS_MAX)
		row = &context->row[context->streams++];
	if (!row) {
		widen_locked(&context->row[0]);
		return &context->row[0];
	}
	row->stream = stream;
	row->thread = thread_of(stream);
	row->marked = 0;
	return row;
}

static struct context *add_context_locked(uint64_t ctx)
{
	struct context *context = find_context_locked(ctx);

	if (!context)
		context = find_context_locked(0);
	if (context && !context->ctx) {
		context->ctx = ctx;
		context->device = cm_registry_read((CUcontext)(uintptr_t)ctx).device;
		context->streams = 0;
	}
	return context;
}

/* The context of a stream, 0: it has none. Asks the driver. */
static uint64_t context_of(CUstream stream)
{
	CUcontext ctx;

	if (is_special(stream) || cm_real.cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
		return cm_context_current();
	return (uintptr_t)ctx;
}

void cm_host_work_disable(void)
{
	atomic_store_explicit(&cm_host_work_is_off, true, memory_order_relaxed);
	atomic_store_explicit(&cm_host_work_streams, 0, memory_order_relaxed);
}

void cm_host_work_count_kernels(void)
{
	atomic_store_explicit(&cm_host_work_kernels, true, memory_order_relaxed);
}

static void note_locked(struct row *row)
{
	const bool first = !has_work(row);

	row->noted++;
	row->followed = false;
	if (first)
		count_locked();
}

/* Whether the work was captured and not submitted: a graph has it then. */
static bool is_captured(CUstream stream, bool per_thread)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	if (!cm_capture_is_active())
		return false;
	if (per_thread)
		(void)cm_real.cuStreamIsCapturing_ptsz(stream, &status);
	else
		(void)cm_real.cuStreamIsCapturing(stream, &status);
	return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

void cm_host_work_note(CUstream stream, bool per_thread)
{
	const CUstream name = name_of(stream, per_thread);
	struct context *context;
	struct row *row;
	uint64_t ctx;

	if (is_captured(stream, per_thread))
		return;
	cm_lock_acquire(&lock);
	row = find_locked(name);
	if (row)
		note_locked(row);
	cm_lock_release(&lock);
	ctx = row ? 0 : context_of(name);
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

static CUevent make_event(void)
{
	CUevent event = NULL;

	return cm_real.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS ? event
										      : NULL;
}

/* Whether an event is to be recorded behind the row's work: not where one stands there already, and
 * not before a free has waited for more than it had to. */
static bool wants_mark_locked(struct row *row)
{
	if (!row || !has_work(row) || row->marked == row->noted)
		return false;
	row->followed = true;
	return atomic_load_explicit(&marks, memory_order_relaxed);
}

void cm_host_work_before_other(CUstream stream, bool per_thread)
{
	const CUstream name = name_of(stream, per_thread);
	uint64_t number = 0;
	CUevent event = NULL;
	struct row *row;

	if (!cm_capture_gate_enter())
		return;
	cm_cancel_hold();
	cm_lock_acquire(&lock);
	row = find_locked(name);
	if (wants_mark_locked(row)) {
		number = row->noted;
		event = row->event;
		row->users++;
	}
	cm_lock_release(&lock);
	if (number) {
		event = event ? event : make_event();
		if (!event || cm_real.cuEventRecord(event, name) != CUDA_SUCCESS)
			number = 0;
		cm_lock_acquire(&lock);
		row->users--;
		row->event = event;
		row->marked = number && row->stream == name ? number : row->marked;
		cm_lock_release(&lock);
	}
	cm_cancel_allow();
	cm_capture_gate_leave();
}

/* What is waited for: a row as it was, and what was found of it. */
struct wait {
	uint64_t ctx;
	uint64_t number;
	CUstream stream;
	uint32_t thread;
	bool is_marked;
	bool followed;
	CUevent event;   /* NULL: none was made yet */
	CUresult failed; /* a sticky error that the driver answered with */
};

/* Records the event behind all that was submitted to the row's stream. Its context is current. */
static CUresult record(const struct wait *wait)
{
	const bool is_own = wait->stream != CU_STREAM_PER_THREAD || wait->thread == cm_thread_id();

	if (wait->stream != ANY_STREAM && is_own)
		return cm_real.cuEventRecord(wait->event, wait->stream);
	if (cm_real_has(cuCtxRecordEvent))
		return cm_real.cuCtxRecordEvent((CUcontext)(uintptr_t)wait->ctx, wait->event);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* Whether the row's work is seen done without a wait; else its event stands behind it. The row's
 * context is current and the gate entered. */
static bool is_done(struct wait *wait)
{
	const bool is_own = wait->stream != CU_STREAM_PER_THREAD || wait->thread == cm_thread_id();
	CUresult res = CUDA_ERROR_NOT_READY;

	if (wait->is_marked)
		res = cm_real.cuEventQuery(wait->event);
	else if (wait->stream != ANY_STREAM && is_own)
		res = cm_real.cuStreamQuery(wait->stream);
	if (res == CUDA_ERROR_NOT_READY && !wait->is_marked) {
		if (wait->followed)
			atomic_store_explicit(&marks, true, memory_order_relaxed);
		if (!wait->event)
			wait->event = make_event();
		if (!wait->event || record(wait) != CUDA_SUCCESS)
			res = cm_real.cuCtxSynchronize();
	}
	wait->failed = cm_context_is_sticky(res) ? res : CUDA_SUCCESS;
	return res != CUDA_ERROR_NOT_READY;
}

/* Waits with the thread relaxed: an event of ours belongs to no capture, and none may begin on the
 * streams meanwhile that it would harm. False: a capture is active, and the work goes on. */
static bool wait_for(struct wait *wait)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUresult res = CUDA_SUCCESS;
	bool done;

	if (!cm_capture_gate_enter())
		return false;
	done = cm_context_push(wait->ctx) != 0;
	if (!done) {
		done = is_done(wait);
		cm_context_pop();
	}
	cm_capture_gate_leave();
	if (done)
		return true;
	(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
	res = cm_real.cuEventSynchronize(wait->event);
	(void)cm_real.cuThreadExchangeStreamCaptureMode(&mode);
	wait->failed = cm_context_is_sticky(res) ? res : CUDA_SUCCESS;
	return res != CUDA_ERROR_NOT_READY;
}

/* Waits for a row of a context that nobody ends meanwhile. The lock is held, but while waiting. */
CM_REQUIRES(lock)
static CUresult await_row_locked(struct context *context, struct row *row)
{
	struct wait wait = {.ctx = context->ctx,
			    .number = row->noted,
			    .stream = row->stream,
			    .thread = row->thread,
			    .is_marked = row->marked == row->noted,
			    .followed = row->followed,
			    .event = row->event};
	bool done;

	row->users++;
	cm_lock_release(&lock);
	done = wait_for(&wait);
	cm_lock_acquire(&lock);
	row->users--;
	row->event = wait.event;
	if (done && row->done < wait.number)
		row->done = wait.number;
	return wait.failed;
}

CM_REQUIRES(lock)
static CUresult await_context_locked(struct context *context)
{
	const CUcontext ctx = (CUcontext)(uintptr_t)context->ctx;
	CUresult res = CUDA_SUCCESS;
	uint32_t s;

	/* One that another thread ends takes its work along: that call waits for it. */
	if (!ctx || !cm_registry_pin(ctx))
		return CUDA_SUCCESS;
	for (s = 0; s < context->streams && res == CUDA_SUCCESS; s++)
		if (has_work(&context->row[s]))
			res = await_row_locked(context, &context->row[s]);
	cm_registry_unpin_all(&ctx, 1);
	return res;
}

CUresult cm_host_work_await(CUdevice device)
{
	CUresult res = CUDA_SUCCESS;
	size_t i;

	if (cm_capture_is_active())
		return res;
	cm_cancel_hold();
	cm_lock_acquire(&lock);
	for (i = 0; i < CM_FENCE_CONTEXTS && res == CUDA_SUCCESS; i++)
		if (contexts[i].device == device)
			res = await_context_locked(&contexts[i]);
	count_locked();
	cm_lock_release(&lock);
	cm_cancel_allow();
	return res;
}

void cm_host_work_forget_stream(CUstream stream)
{
	struct row *row;

	if (!cm_host_work_exists())
		return;
	cm_lock_acquire(&lock);
	row = find_locked(name_of(stream, false));
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
	atomic_store_explicit(&cm_host_work_streams, 0, memory_order_relaxed);
}
