/* SPDX-License-Identifier: MIT */
/*
 * What a capture does to each call that the library makes on its own behalf, and each call does to
 * the capture: by the mode of the capture, with the calling thread's mode as it is and relaxed.
 * And whether a free waits for the device beside a capture, since the library may not then.
 */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

/* Much longer than the calls take. */
#define BUSY_NS (30 * UINT64_C(1000000))

static CUcontext context;
static CUstream stream, other;
static CUevent event; /* recorded, and complete, before the capture */
static CUdeviceptr spare;
static void *spare_host;

static CUresult get_current(void)
{
	CUcontext current;

	return cuCtxGetCurrent(&current);
}

static CUresult create_event(void)
{
	CUevent made;
	CUresult result = cuEventCreate(&made, CU_EVENT_DISABLE_TIMING);

	return result == CUDA_SUCCESS ? cuEventDestroy(made) : result;
}

static CUresult query_event(void)
{
	return cuEventQuery(event);
}

static CUresult record_context(void)
{
	return cuCtxRecordEvent(context, event);
}

static CUresult wait_in_context(void)
{
	return cuCtxWaitEvent(context, event);
}

static CUresult synchronize(void)
{
	return cuCtxSynchronize();
}

static CUresult alloc(void)
{
	return cuMemAlloc(&spare, MIB);
}

static CUresult free_spare(void)
{
	return cuMemFree(spare);
}

static CUresult host_alloc(void)
{
	return cuMemHostAlloc(&spare_host, MIB, 0);
}

static CUresult host_free(void)
{
	return cuMemFreeHost(spare_host);
}

static CUresult get_info(void)
{
	size_t left, total;

	return cuMemGetInfo(&left, &total);
}

static CUresult is_capturing(void)
{
	CUstreamCaptureStatus status;

	return cuStreamIsCapturing(other, &status);
}

static CUresult get_context(void)
{
	CUcontext of_stream;

	return cuStreamGetCtx(stream, &of_stream);
}

/* Edges have data since CUDA 13. */
static CUresult get_capture(void)
{
	CUstreamCaptureStatus status;
	cuuint64_t id;

#if CUDA_VERSION >= 13000
	return cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL, NULL);
#else
	return cuStreamGetCaptureInfo(stream, &status, &id, NULL, NULL, NULL);
#endif
}

static const struct call {
	const char *name;
	CUresult (*call)(void);
} calls[] = {
	{"cuCtxGetCurrent", get_current},
	{"cuEventCreate", create_event},
	{"cuEventQuery", query_event},
	{"cuCtxRecordEvent", record_context},
	{"cuCtxWaitEvent", wait_in_context},
	{"cuCtxSynchronize", synchronize},
	{"cuMemAlloc", alloc},
	{"cuMemFree", free_spare},
	{"cuMemHostAlloc", host_alloc},
	{"cuMemFreeHost", host_free},
	{"cuMemGetInfo", get_info},
	{"cuStreamIsCapturing", is_capturing},
	{"cuStreamGetCtx", get_context},
	{"cuStreamGetCaptureInfo", get_capture},
};

static const struct mode {
	const char *name;
	CUstreamCaptureMode mode;
} modes[] = {
	{"global", CU_STREAM_CAPTURE_MODE_GLOBAL},
	{"thread local", CU_STREAM_CAPTURE_MODE_THREAD_LOCAL},
	{"relaxed", CU_STREAM_CAPTURE_MODE_RELAXED},
};

static void measure(const struct call *call, const struct mode *mode, bool relaxed)
{
	CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUdeviceptr scratch = device_alloc(MIB);
	CUgraph graph = NULL;
	CUresult result, end;
	char text[160];

	CHECK(cuMemAlloc(&spare, MIB));
	CHECK(cuMemHostAlloc(&spare_host, MIB, 0));
	CHECK(cuCtxRecordEvent(context, event));
	CHECK(cuCtxSynchronize());
	CHECK(cuStreamBeginCapture(stream, mode->mode));
	device_fill(scratch, 1, 100, stream);
	if (relaxed)
		CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
	result = call->call();
	if (relaxed)
		CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
	end = cuStreamEndCapture(stream, &graph);
	(void)snprintf(text, sizeof(text), "%s; the capture: %s", device_error(result),
		       device_error(end));
	tell_text(call->name, text, "%s%s", mode->name, relaxed ? ", thread relaxed" : "");
	if (end == CUDA_SUCCESS && graph)
		CHECK(cuGraphDestroy(graph));
	/* What the calls have left is the driver's at exit. */
	(void)cuMemFree(scratch);
	(void)cuCtxSynchronize();
}

/* What the library does in a free that has to wait: a byte is allocated and freed, while a kernel
 * runs that has nothing to do with it. */
static void measure_wait(const struct mode *mode)
{
	CUstreamCaptureMode exchanged = CU_STREAM_CAPTURE_MODE_RELAXED;
	CUgraph graph = NULL;
	CUresult result, left;
	const char *text;

	CHECK(cuStreamBeginCapture(stream, mode->mode));
	CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
	device_spin(BUSY_NS, other);
	result = cuMemAlloc(&spare, 1);
	if (result == CUDA_SUCCESS)
		result = cuMemFree(spare);
	left = cuStreamQuery(other);
	CHECK(cuThreadExchangeStreamCaptureMode(&exchanged));
	(void)cuStreamEndCapture(stream, &graph);
	CHECK(cuCtxSynchronize());
	text = left == CUDA_ERROR_NOT_READY ? "does not wait" : "waits for the device";
	tell_text("a free of a byte", result == CUDA_SUCCESS ? text : device_error(result),
		  "%s, thread relaxed, busy", mode->name);
	if (graph)
		CHECK(cuGraphDestroy(graph));
}

int main(void)
{
	size_t i, j;

	device_open();
	CHECK(cuCtxGetCurrent(&context));
	stream = device_stream();
	other = device_stream();
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		for (j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
			measure(&calls[j], &modes[i], false);
			measure(&calls[j], &modes[i], true);
		}
		measure_wait(&modes[i]);
	}
	library_leave_figures();
	return 0;
}
