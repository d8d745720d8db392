/* SPDX-License-Identifier: MIT */
/*
 * A device of which this process has a part, as MIG and MPS give it and as layers for shared cards
 * do: what the context says of memory is less than what the device says.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>

#define SLICE (UINT64_C(32) << 20)

__attribute__((visibility("default"))) CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	__typeof__(cuMemGetInfo_v2) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemGetInfo_v2");
	size_t device_free, device_total, used;
	CUresult res = next(&device_free, &device_total);

	if (res != CUDA_SUCCESS)
		return res;
	used = device_total - device_free;
	if (total)
		*total = SLICE;
	if (free_bytes)
		*free_bytes = used < SLICE ? SLICE - used : 0;
	return res;
}
