/* SPDX-License-Identifier: MIT */
#include "faults.h"

#include <pthread.h>

#include "context.h"
#include "plan.h"
#include "state.h"

static pthread_mutex_t faults_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t seen[SIM_CALL_COUNT + 1]; /* the last: of any kind */

_Atomic bool sim_faults_counting;

void sim_faults_start(void)
{
	if (sim_plan.fault_count)
		atomic_store_explicit(&sim_faults_counting, true, memory_order_relaxed);
}

/*
 * Errors after which, as cuda.h has it, the context or the process can't go on, or any further work
 * returns the same error; and two kinds of broken memory, of which it says nothing.
 */
static bool is_sticky(CUresult code)
{
	static const CUresult sticky[] = {
		CUDA_ERROR_ECC_UNCORRECTABLE,
		CUDA_ERROR_NVLINK_UNCORRECTABLE,
		CUDA_ERROR_CONTAINED,
		CUDA_ERROR_ILLEGAL_ADDRESS,
		CUDA_ERROR_LAUNCH_TIMEOUT,
		CUDA_ERROR_ASSERT,
		CUDA_ERROR_HARDWARE_STACK_ERROR,
		CUDA_ERROR_ILLEGAL_INSTRUCTION,
		CUDA_ERROR_MISALIGNED_ADDRESS,
		CUDA_ERROR_INVALID_ADDRESS_SPACE,
		CUDA_ERROR_INVALID_PC,
		CUDA_ERROR_LAUNCH_FAILED,
		CUDA_ERROR_TENSOR_MEMORY_LEAK,
		CUDA_ERROR_MPS_CLIENT_TERMINATED,
		CUDA_ERROR_EXTERNAL_DEVICE,
	};

	for (size_t i = 0; i < sizeof(sticky) / sizeof(sticky[0]); i++)
		if (code == sticky[i])
			return true;
	return false;
}

/* What was planned for after this one begins to count. */
static void let_next_come(unsigned i)
{
	struct sim_fault *next = &sim_plan.faults[i + 1];

	if (i + 1 == sim_plan.fault_count || !next->waits)
		return;
	next->waits = false;
	next->at += seen[next->call];
}

static CUresult find_due(enum sim_call call)
{
	for (unsigned i = 0; i < sim_plan.fault_count; i++) {
		struct sim_fault *fault = &sim_plan.faults[i];

		if (!fault->waits && (fault->call == call || fault->call == SIM_CALL_COUNT) &&
		    fault->at == seen[fault->call]) {
			fault->at = 0;
			let_next_come(i);
			return fault->code;
		}
	}
	return CUDA_SUCCESS;
}

CUresult sim_faults_next(enum sim_call call)
{
	CUresult code = CUDA_SUCCESS;
	struct sim_ctx *ctx;

	pthread_mutex_lock(&faults_lock);
	seen[call]++;
	if (!(sim_calls[call].flags & SIM_SURE)) {
		seen[SIM_CALL_COUNT]++;
		code = find_due(call);
	}
	pthread_mutex_unlock(&faults_lock);
	ctx = is_sticky(code) ? sim_ctx_current() : NULL;
	if (ctx)
		ctx->error = code;
	/* A call without the lock can't look at the context's streams. */
	if (ctx && !(sim_calls[call].flags & SIM_NOLOCK))
		sim_ctx_tell_end(ctx);
	return code;
}

bool sim_faults_add(enum sim_call call, uint64_t n, CUresult code)
{
	bool ok;

	pthread_mutex_lock(&faults_lock);
	ok = sim_plan.fault_count < SIM_MAX_FAULTS && n;
	if (ok)
		sim_plan.faults[sim_plan.fault_count++] = (struct sim_fault){
			.call = call, .at = seen[call] + n, .code = code};
	sim_faults_start();
	pthread_mutex_unlock(&faults_lock);
	return ok;
}

void sim_faults_clear(void)
{
	pthread_mutex_lock(&faults_lock);
	sim_plan.fault_count = 0;
	for (unsigned i = 0; i <= SIM_CALL_COUNT; i++)
		seen[i] = 0;
	pthread_mutex_unlock(&faults_lock);
	atomic_store_explicit(&sim_faults_counting, true, memory_order_relaxed);
}
