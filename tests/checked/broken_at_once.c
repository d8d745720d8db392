/* SPDX-License-Identifier: MIT */
/* Every event is taken for complete: freed memory is used again at once. */
#include "tests/checked/ring.h"

static int say_done(uint64_t ctx, uint64_t event)
{
	(void)ctx;
	(void)event;
	return 0;
}

void cm_ring_break(struct cm_driver_ops *ops)
{
	ops->event_query = say_done;
}
