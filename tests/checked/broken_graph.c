/* SPDX-License-Identifier: MIT */
/* The launch of a graph names no memory: nobody of another device waits for it. */
#include "interpose/driver/graph_work.h"

uint64_t __wrap_cm_graph_work_named(CUgraphExec exec);

uint64_t __wrap_cm_graph_work_named(CUgraphExec exec)
{
	(void)exec;
	return 0;
}
