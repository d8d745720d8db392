/* SPDX-License-Identifier: MIT */
/*
 * What the runtime adds to the driver's call: pairs of cudaMalloc and cudaFree beside pairs of
 * cuMemAlloc and cuMemFree, in one process, by turns. Under the preload, where the driver's pair is
 * served by the cache, the difference is all that a fast path of the runtime's names could save.
 */
#include <cuda.h>
#include <dlfcn.h>

#include "tests/gpu/kit/runtime.cuh"

enum { TURNS = 2000, WARM = 100 };

static CUresult (*driver_alloc)(CUdeviceptr *, size_t);
static CUresult (*driver_free)(CUdeviceptr);

static void find_driver()
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	if (!driver)
		tell_skipped("no driver: %s", dlerror());
	driver_alloc = (CUresult(*)(CUdeviceptr *, size_t))dlsym(driver, "cuMemAlloc_v2");
	driver_free = (CUresult(*)(CUdeviceptr))dlsym(driver, "cuMemFree_v2");
	if (!driver_alloc || !driver_free)
		tell_failure("a driver without cuMemAlloc_v2");
}

static uint64_t runtime_pair(size_t bytes)
{
	uint64_t from = tell_now();
	void *at;

	CHECK(cudaMalloc(&at, bytes));
	CHECK(cudaFree(at));
	return tell_now() - from;
}

static uint64_t driver_pair(size_t bytes)
{
	uint64_t from = tell_now();
	CUdeviceptr at;

	if (driver_alloc(&at, bytes) != CUDA_SUCCESS || driver_free(at) != CUDA_SUCCESS)
		tell_failure("cuMemAlloc");
	return tell_now() - from;
}

static void measure(size_t bytes)
{
	static uint64_t runtime[TURNS], driver[TURNS];
	int turns = library_is_here() ? TURNS : TURNS / 10;

	for (int i = -WARM; i < turns; i++) {
		uint64_t with = runtime_pair(bytes), without = driver_pair(bytes);

		if (i < 0)
			continue;
		runtime[i] = with;
		driver[i] = without;
	}
	tell_times("cudaMalloc, cudaFree", runtime, (size_t)turns, "%zu KiB", bytes / 1024);
	tell_times("cuMemAlloc, cuMemFree", driver, (size_t)turns, "%zu KiB", bytes / 1024);
}

int main()
{
	static const size_t sizes[] = {1 << 10, 1 << 16, 1 << 20, 16 << 20};

	CHECK(cudaFree(NULL));
	find_driver();
	for (size_t bytes : sizes)
		measure(bytes);
	library_leave_figures();
	return 0;
}
