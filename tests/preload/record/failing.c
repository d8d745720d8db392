/* SPDX-License-Identifier: MIT */
/* A program whose functions are its own: none is in its table of dynamic symbols. */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

static CUdeviceptr held, wanted;

__attribute__((noinline)) static int hold_most(void)
{
	const CUresult res = cuMemAlloc_v2(&held, 48 << 20);

	return res == CUDA_SUCCESS;
}

__attribute__((noinline)) static int ask_for_more(void)
{
	const CUresult res = cuMemAlloc_v2(&wanted, 32 << 20);

	return res == CUDA_ERROR_OUT_OF_MEMORY;
}

int main(void)
{
	CUcontext ctx;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
		return 1;
	return hold_most() && ask_for_more() ? 0 : 2;
}
