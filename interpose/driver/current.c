/* SPDX-License-Identifier: MIT */
#include "interpose/driver/current.h"

/* Also where it is current by its handle: that may be a context that is gone, whose handle a new
 * one has. */
int cm_context_push(uint64_t ctx)
{
	return (int)cm_real.cuCtxPushCurrent_v2((CUcontext)(uintptr_t)ctx);
}

void cm_context_pop(void)
{
	CUcontext ctx;

	(void)cm_real.cuCtxPopCurrent_v2(&ctx);
}

/*
 * Those after which, as cuda.h has it, any further work returns the same error, or the context or
 * the process can't go on; and two kinds of broken memory, of which it says nothing and nothing is
 * hoped.
 */
bool cm_context_is_lasting(CUresult res)
{
	return res == CUDA_ERROR_ECC_UNCORRECTABLE || res == CUDA_ERROR_NVLINK_UNCORRECTABLE ||
	       res == CUDA_ERROR_CONTAINED || res == CUDA_ERROR_ILLEGAL_ADDRESS ||
	       res == CUDA_ERROR_LAUNCH_TIMEOUT || res == CUDA_ERROR_ASSERT ||
	       (res >= CUDA_ERROR_HARDWARE_STACK_ERROR && res <= CUDA_ERROR_LAUNCH_FAILED) ||
	       res == CUDA_ERROR_TENSOR_MEMORY_LEAK || res == CUDA_ERROR_MPS_CLIENT_TERMINATED ||
	       res == CUDA_ERROR_EXTERNAL_DEVICE;
}
