/* SPDX-License-Identifier: MIT */
/*
 * What the calls cost by which the library learns that memory is idle: with 1, 8 and 64 streams,
 * idle and busy.
 */
#include <stdlib.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { TURNS = 200, STREAMS = 64 };

/* Longer than the measurements behind it take, a device that stays busy throughout. */
#define BUSY_NS (10 * UINT64_C(1000000))

static CUstream streams[STREAMS];
static CUevent event;
static CUcontext context;

static CUresult record_in_stream(void)
{
	return cuEventRecord(event, streams[0]);
}

static CUresult record_context(void)
{
	return cuCtxRecordEvent(context, event);
}

static CUresult query(void)
{
	CUresult result = cuEventQuery(event);

	return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static CUresult wait_in_context(void)
{
	return cuCtxWaitEvent(context, event);
}

static CUresult get_current(void)
{
	CUcontext current;

	return cuCtxGetCurrent(&current);
}

static CUresult push_and_pop(void)
{
	CUcontext popped;
	CUresult result = cuCtxPushCurrent(context);

	return result == CUDA_SUCCESS ? cuCtxPopCurrent(&popped) : result;
}

static CUresult exchange_mode(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

	return cuThreadExchangeStreamCaptureMode(&mode);
}

/* A free and the barrier behind it, as a program that reuses its memory at once causes them. */
static CUresult record_and_wait(void)
{
	CUresult result = cuCtxRecordEvent(context, event);

	return result == CUDA_SUCCESS ? cuCtxWaitEvent(context, event) : result;
}

static const struct call {
	const char *name;
	CUresult (*call)(void);
} calls[] = {
	{"cuCtxGetCurrent", get_current},
	{"cuCtxPushCurrent, cuCtxPopCurrent", push_and_pop},
	{"cuThreadExchangeStreamCaptureMode", exchange_mode},
	{"cuEventRecord", record_in_stream},
	{"cuCtxRecordEvent", record_context},
	{"cuEventQuery", query},
	{"cuCtxWaitEvent", wait_in_context},
	{"cuCtxRecordEvent, cuCtxWaitEvent", record_and_wait},
};

static void measure(const struct call *call, int count, bool busy)
{
	static uint64_t ns[TURNS];
	int i;

	for (i = 0; busy && i < count; i++)
		device_spin(BUSY_NS, streams[i]);
	device_check(record_context(), "cuCtxRecordEvent");
	for (i = 0; i < TURNS; i++) {
		uint64_t from = tell_now();

		device_check(call->call(), call->name);
		ns[i] = tell_now() - from;
	}
	if (busy && cuStreamQuery(streams[0]) != CUDA_ERROR_NOT_READY)
		tell_text(call->name, "the device was done before the end", "%d streams, not busy",
			  count);
	tell_times(call->name, ns, TURNS, "%d streams, %s", count, busy ? "busy" : "idle");
	CHECK(cuCtxSynchronize());
}

int main(void)
{
	static const int counts[] = {1, 8, STREAMS};
	size_t i, j;
	int made = 0;

	device_open();
	CHECK(cuCtxGetCurrent(&context));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	if (record_context() == CUDA_ERROR_NOT_SUPPORTED)
		tell_skipped("no cuCtxRecordEvent in this driver");
	for (i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		while (made < counts[i])
			streams[made++] = device_stream();
		for (j = 0; j < sizeof(calls) / sizeof(calls[0]); j++) {
			measure(&calls[j], made, false);
			measure(&calls[j], made, true);
		}
	}
	library_leave_figures();
	return 0;
}
