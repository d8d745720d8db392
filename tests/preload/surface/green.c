/* SPDX-License-Identifier: MIT */
/*
 * A driver's green contexts, as far as a caller can tell that there is one: the simulated driver has
 * none. Behind the library in the search order, like the driver itself.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

__attribute__((visibility("default"))) CUresult cuGreenCtxCreate(CUgreenCtx *phCtx,
								 CUdevResourceDesc desc,
								 CUdevice dev, unsigned int flags)
{
	static int any;

	(void)desc;
	(void)dev;
	(void)flags;
	*phCtx = (CUgreenCtx)(void *)&any;
	return CUDA_SUCCESS;
}
