/* SPDX-License-Identifier: MIT */
/* Stream-ordered memory beside cached blocks, and blocks that are freed by the other way's call. */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { STREAMS = 4, TURNS = 200, COUNT = 1 << 15 };

static uint64_t wrong;

static void ordered(CUstream stream, uint32_t number, CUdeviceptr out)
{
	CUdeviceptr at;

	CHECK(cuMemAllocAsync(&at, COUNT * sizeof(uint32_t), stream));
	device_fill(at, number, COUNT, stream);
	device_copy(out, at, COUNT, stream);
	CHECK(cuMemFreeAsync(at, stream));
}

static void tell_pool(const char *when)
{
	CUmemoryPool pool;
	cuuint64_t used;

	CHECK(cuCtxSynchronize());
	CHECK(cuDeviceGetMemPool(&pool, device_first()));
	CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	printf("%s: %llu bytes of the pool in use\n", when, (unsigned long long)used);
}

int main(void)
{
	CUstream streams[STREAMS];
	CUdeviceptr at;
	int i, supported;

	device_open();
	CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED,
				   device_first()));
	if (!supported)
		tell_skipped("the device has no memory pools");
	for (i = 0; i < STREAMS; i++)
		streams[i] = device_stream();
	for (i = 0; i < TURNS; i++) {
		CUstream stream = streams[i % STREAMS];
		CUdeviceptr out = device_alloc(COUNT * sizeof(uint32_t));

		ordered(stream, (uint32_t)i, out);
		wrong += device_wrong(out, (uint32_t)i, COUNT, stream);
		device_free(out);
	}
	tell_pool("after the loop");
	CHECK(cuMemAllocAsync(&at, MIB, streams[0]));
	CHECK(cuStreamSynchronize(streams[0]));
	printf("cuMemFree of a block of the pool: %s\n", device_error(cuMemFree(at)));
	tell_pool("after cuMemFree");
	at = device_alloc(MIB);
	printf("cuMemFreeAsync of a plain block: %s\n",
	       device_error(cuMemFreeAsync(at, streams[0])));
	printf("wrong: %llu\n", (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
