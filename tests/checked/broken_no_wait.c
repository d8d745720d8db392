/* SPDX-License-Identifier: MIT */
/* The barrier records its event and forgets to put the context behind it. */
#include "tests/checked/ring.h"

static int forget(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	(void)event;
	return 0;
}

void cm_ring_break(struct cm_driver_ops *ops)
{
	ops->ctx_wait_event = forget;
}
