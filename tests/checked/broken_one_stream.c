/* SPDX-License-Identifier: MIT */
/* An epoch is an event of the legacy stream, which is after the blocking streams and no others. */
#include "interpose/driver/context.h"
#include "interpose/symbols/hooks.h"
#include "tests/checked/ring.h"

static int record_in_one_stream(uint64_t ctx, uint64_t event)
{
	CUresult (*record)(CUevent event, CUstream stream) = NULL;
	int err = cm_context_push(ctx);

	if (err)
		return err;
	err = (int)cm_real.cuGetProcAddress_v2("cuEventRecord", (void **)&record, 12000, 0, NULL);
	if (!err)
		err = (int)record((CUevent)(uintptr_t)event, CU_STREAM_LEGACY);
	cm_context_pop();
	return err;
}

void cm_ring_break(struct cm_driver_ops *ops)
{
	ops->event_record = record_in_one_stream;
}
