/* SPDX-License-Identifier: MIT */
#include "interpose/driver/current.h"

#include <stdatomic.h>

/* How many times streams were destroyed: a handle from before may belong to another stream. */
static _Atomic uint32_t streams_gone;

void cm_context_forget_streams(void)
{
	atomic_fetch_add_explicit(&streams_gone, 1, memory_order_release);
}

uint64_t cm_context_of_stream(CUstream stream)
{
	static __thread struct {
		CUstream stream;
		uint64_t ctx;
		uint32_t gone;
	} last;
	const uint32_t gone = atomic_load_explicit(&streams_gone, memory_order_acquire);
	CUcontext ctx;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD)
		return cm_context_current();
	if (last.stream == stream && last.gone == gone)
		return last.ctx;
	if (cm_real.cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
		return cm_context_current();
	last.stream = stream;
	last.ctx = (uintptr_t)ctx;
	last.gone = gone;
	return last.ctx;
}

/* Pushes even if this handle is current: that may be a destroyed context whose handle was
 * reused. */
int cm_context_push(uint64_t ctx)
{
	return (int)cm_real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx);
}

void cm_context_pop(void)
{
	CUcontext ctx;

	(void)cm_real.cuCtxPopCurrent_v2(&ctx);
}

/* The errors after which, by cuda.h, further work returns the same error, or the context or process
 * cannot go on; and two kinds of uncorrectable memory errors, of which cuda.h says nothing. */
bool cm_context_is_sticky(CUresult res)
{
	return res == CUDA_ERROR_ECC_UNCORRECTABLE || res == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	       res == CUDA_ERROR_CONTAINED || res == CUDA_ERROR_ILLEGAL_ADDRESS ||
	       res == CUDA_ERROR_LAUNCH_TIMEOUT || res == CUDA_ERROR_ASSERT ||
	       (res >= CUDA_ERROR_HARDWARE_STACK_ERROR && res <= CUDA_ERROR_LAUNCH_FAILED) ||
	       res == CUDA_ERROR_TENSOR_MEMORY_LEAK || res == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
	       res == CUDA_ERROR_EXTERNAL_DEVICE;
}
