/* SPDX-License-Identifier: MIT */
/* CUB's caching allocator, with the bins that serve every size here and no limit on what it
 * keeps. */
#include <cub/util_allocator.cuh>

#include "tests/gpu/bench/measure.h"
#include "tests/gpu/kit/runtime.cuh"

extern "C" void device_open(void);

static cub::CachingDeviceAllocator *allocator;

static CUdeviceptr cub_alloc(size_t bytes, CUstream stream)
{
	void *at;

	CHECK(allocator->DeviceAllocate(&at, bytes, stream));
	return (CUdeviceptr)at;
}

static void cub_free(CUdeviceptr at, CUstream)
{
	CHECK(allocator->DeviceFree((void *)at));
}

int main()
{
	const struct measured cub_allocator = {"CUB", cub_alloc, cub_free};

	device_open();
	CHECK(cudaSetDevice(0));
	/* Not destroyed: it would free blocks that a driver at its end no longer knows. */
	allocator = new cub::CachingDeviceAllocator(2, 9, 31, SIZE_MAX, true);
	measure_all(&cub_allocator);
	return 0;
}
