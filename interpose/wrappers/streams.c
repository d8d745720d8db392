/* SPDX-License-Identifier: MIT */
/*
 * Hooks of functions that destroy a stream. Its capture ends with it; its work goes on.
 */
#include "interpose/driver/capture.h"
#include "interpose/driver/current.h"
#include "interpose/driver/host_work.h"
#include "interpose/symbols/hooks.h"

static CUresult destroy(CUstream stream, CUresult (*real)(CUstream stream))
{
	/* Before the call: once the driver has begun, a new stream may get the handle. */
	cm_host_work_forget_stream(stream);
	cm_context_forget_streams();
	return cm_capture_destroy_stream(stream, real);
}

CM_WRAP(cuStreamDestroy, (CUstream stream), (stream), destroy(stream, cm_real.cuStreamDestroy))
CM_WRAP(cuStreamDestroy_v2, (CUstream stream), (stream),
	destroy(stream, cm_real.cuStreamDestroy_v2))
