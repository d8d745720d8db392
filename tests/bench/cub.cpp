/* SPDX-License-Identifier: MIT */
/* CUB's caching allocator behind the functions that allocators.c looks for. */
#include <cub/util_allocator.cuh>

#include <cstdlib>
#include <cstring>

#include "instant_runtime.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

/* Never destroyed: the driver may be gone when this process ends. */
static cub::CachingDeviceAllocator *allocator;

/* "default", or its four parameters: growth, smallest and largest bin, bytes. */
EXPORT int bench_cub_open(const char *config)
{
	using cub::CachingDeviceAllocator;

	if (!std::strcmp(config, "default"))
		allocator = new CachingDeviceAllocator();
	else if (!std::strcmp(config, "2,9,38,unlimited"))
		allocator = new CachingDeviceAllocator(2, 9, 38,
						       CachingDeviceAllocator::INVALID_SIZE);
	else if (!std::strcmp(config, "8,3,12,unlimited"))
		allocator = new CachingDeviceAllocator(8, 3, 12,
						       CachingDeviceAllocator::INVALID_SIZE);
	return allocator ? 0 : -1;
}

EXPORT void *bench_cub_alloc(size_t bytes, unsigned stream)
{
	void *block = nullptr;

	/* The runtime has no streams: a number is as good as any. */
	return allocator->DeviceAllocate(&block, bytes, cudaStream_t(uintptr_t(stream))) ==
			       cudaSuccess
		       ? block
		       : nullptr;
}

EXPORT void bench_cub_free(void *block)
{
	(void)allocator->DeviceFree(block);
}

EXPORT uint64_t bench_cub_calls(void)
{
	return instant_runtime_calls();
}
