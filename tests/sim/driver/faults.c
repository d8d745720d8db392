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

/* Errors after which the real driver refuses to work on in the context. */
static bool is_sticky(CUresult code)
{
	return code == CUDA_ERROR_ECC_UNCORRECTABLE || code == CUDA_ERROR_ASSERT ||
	       code == CUDA_ERROR_LAUNCH_TIMEOUT ||
	       (code >= CUDA_ERROR_HARDWARE_STACK_ERROR && code <= CUDA_ERROR_LAUNCH_FAILED) ||
	       code == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult find_due(enum sim_call call)
{
	for (unsigned i = 0; i < sim_plan.fault_count; i++) {
		struct sim_fault *fault = &sim_plan.faults[i];

		if ((fault->call == call || fault->call == SIM_CALL_COUNT) &&
		    fault->at == seen[fault->call]) {
			fault->at = 0;
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

uint64_t sim_faults_seen(void)
{
	uint64_t count;

	pthread_mutex_lock(&faults_lock);
	count = seen[SIM_CALL_COUNT];
	pthread_mutex_unlock(&faults_lock);
	return count;
}
