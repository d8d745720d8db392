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
	CUresult res;

	if (!cm_hook_enter())
		return real(stream);
	/* Before the call: once the driver has begun, a new stream may get the handle. */
	cm_host_work_forget_stream(stream);
	cm_context_forget_streams();
	res = cm_capture_destroy_stream(stream, real);
	cm_hook_leave();
	return res;
}

CUresult cm_wrap_cuStreamDestroy(CUstream stream)
{
	return destroy(stream, cm_real.cuStreamDestroy);
}

CUresult cm_wrap_cuStreamDestroy_v2(CUstream stream)
{
	return destroy(stream, cm_real.cuStreamDestroy_v2);
}
