/* SPDX-License-Identifier: MIT */
#include "interpose/driver/current.h"

uint64_t cm_context_of_stream(CUstream stream)
{
	CUcontext ctx;

	if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
	    cm_real.cuStreamGetCtx(stream, &ctx) != CUDA_SUCCESS)
		return cm_context_current();
	return (uintptr_t)ctx;
}

/* Pushes even where this handle is current: that may be a destroyed context whose handle was
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
