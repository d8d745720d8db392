/* SPDX-License-Identifier: MIT */
#include "call.h"

#include "capture.h"
#include "clock.h"
#include "context.h"
#include "faults.h"
#include "plan.h"
#include "state.h"
#include "work.h"

static void add(_Atomic uint64_t *counter, uint64_t more)
{
	/* One thread writes it: no locked instruction is needed. */
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
			      memory_order_relaxed);
}

/* Errors that belong to the phase of the process. */
static CUresult check_phase(const struct sim_thread *self, const struct sim_call_info *info)
{
	if (info->version > (unsigned)sim_plan.version)
		return CUDA_ERROR_NOT_SUPPORTED;
	switch (sim_phase()) {
	case SIM_DEAD:
		return info->flags & SIM_ANYTIME ? CUDA_SUCCESS : CUDA_ERROR_DEINITIALIZED;
	case SIM_FRESH:
	case SIM_FORKED:
		return info->flags & SIM_ANYTIME ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
	case SIM_READY:
		break;
	}
	if (self->in_host_call && !(info->flags & SIM_ANYTIME))
		return CUDA_ERROR_NOT_PERMITTED;
	return CUDA_SUCCESS;
}

static void pass_latency(enum sim_call call)
{
	uint64_t ns = sim_plan.latency_ns[call];

	/* A forked child does none of the work of its parent: it has no device memory. */
	if (sim_phase() == SIM_FORKED)
		return;
	if (ns && sim_plan.real_time)
		sim_clock_spend(ns);
	sim_work_run_until(sim_clock_now() + (sim_plan.real_time ? 0 : ns));
}

CUresult sim_call_enter(struct sim_frame *frame, enum sim_call call)
{
	const struct sim_call_info *info = &sim_calls[call];
	struct sim_thread *self = sim_thread_self();
	CUresult result;

	frame->call = call;
	frame->locked = false;
	frame->began_ns = 0;
	if (!self)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (self->interrupt && --self->interrupt == 0)
		self->meanwhile(self->meanwhile_data);
	add(&self->calls[call], 1);
	if (!(info->flags & SIM_NOLOCK)) {
		sim_lock();
		frame->locked = true;
		frame->began_ns = sim_clock_now();
		self->per_thread = info->flags & SIM_PER_THREAD;
		pass_latency(call);
	}
	result = check_phase(self, info);
	if (result == CUDA_SUCCESS && sim_faults_armed())
		result = sim_faults_next(call);
	if (result == CUDA_SUCCESS && (info->flags & SIM_CTX))
		result = sim_ctx_check(self);
	if (result == CUDA_SUCCESS && (info->flags & SIM_UNSAFE))
		result = sim_capture_check(self);
	return result;
}

/*
 * A program that asks until something is ready would ask for ever if asking took no time. The first
 * answer in a row, with no other call and no time between, takes none, each next one twice as long.
 */
static void pass_poll(CUresult result)
{
	static uint64_t step_ns, asked_ns;

	if (sim_plan.real_time)
		return;
	if (result != CUDA_ERROR_NOT_READY || sim_clock_now() != asked_ns)
		step_ns = 0;
	if (result != CUDA_ERROR_NOT_READY)
		return;
	sim_work_run_until(sim_clock_now() + step_ns);
	step_ns = step_ns ? step_ns * 2 : sim_plan.poll_ns;
	asked_ns = sim_clock_now();
}

CUresult sim_call_leave(struct sim_frame *frame, CUresult result)
{
	struct sim_thread *self;

	if (!frame->locked)
		return result;
	pass_poll(result);
	self = sim_thread_self();
	add(&self->ns[frame->call], sim_clock_now() - frame->began_ns);
	sim_unlock();
	return result;
}
