/* SPDX-License-Identifier: MIT */
/*
 * Pinned buffers that are freed while a copy may still read them, and asked for again at once: what
 * arrives on the device is what was in the buffer when the copy was submitted.
 */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { STREAMS = 4, TURNS = 400, SIMULATED_TURNS = 60 };

int main(void)
{
	CUstream streams[STREAMS];
	uint64_t random = 3, wrong = 0;
	int i, turns;

	device_open();
	turns = tell_simulated() ? SIMULATED_TURNS : TURNS;
	for (i = 0; i < STREAMS; i++)
		streams[i] = device_stream();
	for (i = 0; i < turns; i++) {
		size_t count = 1 + device_random(&random) % MIB, j;
		CUstream stream = streams[i % STREAMS];
		CUdeviceptr at = device_alloc(count * sizeof(uint32_t));
		uint32_t *host;

		CHECK(cuMemHostAlloc((void **)&host, count * sizeof(*host), 0));
		for (j = 0; j < count; j++)
			host[j] = (uint32_t)i;
		CHECK(cuMemcpyHtoDAsync(at, host, count * sizeof(*host), stream));
		CHECK(cuMemFreeHost(host));
		wrong += device_wrong(at, (uint32_t)i, count, stream);
		device_free(at);
	}
	printf("turns: %d\nwrong: %llu\n", turns, (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
