/* SPDX-License-Identifier: MIT */
/* Captures are not noticed, and what the driver would refuse meanwhile is taken for done. */
#include "interpose/driver/capture.h"
#include "tests/checked/ring.h"

extern _Atomic int __real_cm_captures __attribute__((visibility("hidden")));
extern _Atomic int __wrap_cm_captures;
/* What all but capture.c take for the number of captures. */
_Atomic int __wrap_cm_captures;
bool __wrap_cm_capture_gate_enter(void);
void __wrap_cm_capture_gate_leave(void);

bool __wrap_cm_capture_gate_enter(void)
{
	return true;
}

void __wrap_cm_capture_gate_leave(void)
{
}

static int (*record)(uint64_t ctx, uint64_t event);
static int (*query)(uint64_t ctx, uint64_t event);
static int (*wait)(uint64_t ctx, uint64_t event);

static bool is_active(void)
{
	return atomic_load(&__real_cm_captures) != 0;
}

static int record_or_not(uint64_t ctx, uint64_t event)
{
	return is_active() ? 0 : record(ctx, event);
}

static int query_or_not(uint64_t ctx, uint64_t event)
{
	return is_active() ? 0 : query(ctx, event);
}

static int wait_or_not(uint64_t ctx, uint64_t event)
{
	return is_active() ? 0 : wait(ctx, event);
}

void cm_ring_break(struct cm_driver_ops *ops)
{
	record = ops->event_record;
	query = ops->event_query;
	wait = ops->ctx_wait_event;
	ops->event_record = record_or_not;
	ops->event_query = query_or_not;
	ops->ctx_wait_event = wait_or_not;
}
