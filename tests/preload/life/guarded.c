/* SPDX-License-Identifier: MIT */
/* A program of AddressSanitizer, whose runtime is a shared library. */
#include <cuda.h>
#include <stdlib.h>

#define OK(call)                            \
	do {                                \
		if (call)                   \
			exit(EXIT_FAILURE); \
	} while (0)

int main(void)
{
	CUdeviceptr block;
	CUcontext ctx;
	int i;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	for (i = 0; i < 3; i++) {
		OK(cuMemAlloc(&block, 1000));
		OK(cuMemFree(block));
	}
	return 7;
}
