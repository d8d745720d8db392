/* SPDX-License-Identifier: MIT */
/*
 * pairs sync|async: the driver's own allocators. Under the preload "sync" is the library's.
 * The pool of "async" keeps all that it has, as programs that care for speed set it.
 */
#include <string.h>

#include "measure.h"
#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

static CUdeviceptr sync_alloc(size_t bytes, CUstream stream)
{
	(void)stream;
	return device_alloc(bytes);
}

static void sync_free(CUdeviceptr at, CUstream stream)
{
	(void)stream;
	device_free(at);
}

static CUdeviceptr async_alloc(size_t bytes, CUstream stream)
{
	CUdeviceptr at;

	CHECK(cuMemAllocAsync(&at, bytes, stream));
	return at;
}

static void async_free(CUdeviceptr at, CUstream stream)
{
	CHECK(cuMemFreeAsync(at, stream));
}

static void keep_all(void)
{
	cuuint64_t threshold = UINT64_MAX;
	CUmemoryPool pool;

	CHECK(cuDeviceGetMemPool(&pool, device_first()));
	CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
}

int main(int argc, char **argv)
{
	struct measured sync = {"cuMemAlloc", sync_alloc, sync_free};
	const struct measured async = {"cuMemAllocAsync", async_alloc, async_free};

	if (argc != 2 || (strcmp(argv[1], "sync") != 0 && strcmp(argv[1], "async") != 0))
		tell_failure("usage: pairs sync|async");
	device_open();
	if (library_is_here())
		sync.name = "cudamem";
	if (strcmp(argv[1], "async") == 0) {
		keep_all();
		measure_all(&async);
	} else {
		measure_all(&sync);
	}
	return 0;
}
