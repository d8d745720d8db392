/* SPDX-License-Identifier: MIT */
/*
 * A kernel that runs until the host tells it to stop, while blocks come and go: what goes on
 * without the library must not hang under it.
 */
#include <stdatomic.h>
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { TURNS = 20, COUNT = 1 << 12 };

int main(void)
{
	_Atomic(uint32_t) *stop;
	CUstream kernel, work;
	CUdeviceptr word;
	uint64_t wrong = 0;
	uint32_t i;

	device_open();
	kernel = device_stream();
	work = device_stream();
	CHECK(cuMemHostAlloc((void **)&stop, sizeof(*stop), CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&word, (void *)(uintptr_t)stop, 0));
	atomic_store(stop, 0);
	device_until(word, kernel);
	/* No free: natively it may wait for the kernel. */
	for (i = 0; i < TURNS; i++) {
		CUdeviceptr at = device_alloc(COUNT * sizeof(uint32_t));

		device_fill(at, i, COUNT, work);
		CHECK(cuStreamSynchronize(work));
	}
	printf("while it runs: %s\n", device_error(cuStreamQuery(kernel)));
	atomic_store(stop, 1);
	CHECK(cuCtxSynchronize());
	for (i = 0; i < TURNS; i++) {
		CUdeviceptr at = device_alloc(COUNT * sizeof(uint32_t) * (1 + i));

		device_fill(at, i, COUNT, work);
		wrong += device_wrong(at, i, COUNT, work);
		device_free(at);
	}
	printf("wrong: %llu\n", (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
