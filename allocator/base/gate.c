/* SPDX-License-Identifier: MIT */
#include "allocator/base/gate.h"

bool cm_gate_enter(const struct cm_driver_ops *ops)
{
	const uint64_t end = ops->now_ns() + CM_GATE_CAPTURE_NS;

	while (!ops->gate_enter()) {
		if (ops->now_ns() >= end)
			return false;
		ops->sleep_ns(CM_GATE_BACKOFF_NS);
	}
	return true;
}

bool cm_gate_backoff(const struct cm_driver_ops *ops, uint64_t *backoff_ns)
{
	ops->gate_leave();
	cm_ops_backoff(ops, backoff_ns, CM_GATE_BACKOFF_MAX_NS);
	return cm_gate_enter(ops);
}

bool cm_gate_lock(const struct cm_driver_ops *ops, struct cm_lock *lock)
{
	uint64_t backoff = CM_GATE_BACKOFF_NS;

	while (!cm_lock_try(lock))
		if (!cm_gate_backoff(ops, &backoff))
			return false;
	return true;
}
