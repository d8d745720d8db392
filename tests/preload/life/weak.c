/* SPDX-License-Identifier: MIT */
/*
 * A program that is not linked with the driver and asks by weak references whether it is. With the
 * library there are those that it exports, and no others. Argument: "alone" or "under".
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <string.h>

#pragma weak cuInit
#pragma weak cuMemAlloc_v2

int main(int argc, char **argv)
{
	const int is_under = argc > 1 && !strcmp(argv[1], "under");
	CUdeviceptr addr = 77;

	if (cuInit)
		return 2; /* what every such program asks for first */
	if (!cuMemAlloc_v2)
		return is_under;
	/* Who calls it without hears that there is no driver. */
	return !is_under || cuMemAlloc_v2(&addr, 512) != CUDA_ERROR_NOT_INITIALIZED || addr != 77;
}
