/* SPDX-License-Identifier: MIT */
/*
 * Allocation in the inner loop, on many streams: blocks are freed as soon as the work on them is
 * submitted, and asked for again at once. Every result is checked.
 */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { STREAMS = 16, TURNS = 4000, SIMULATED_TURNS = 300, SAMPLES = 3 };

static CUstream streams[STREAMS];

static uint32_t bits(float value)
{
	union {
		float value;
		uint32_t bits;
	} both = {value};

	return both.bits;
}

/* (v + v * 3) of every word; three of them go to `out`. */
static void turn(CUstream stream, float v, size_t count, float *out)
{
	CUdeviceptr a = device_alloc(count * sizeof(float));
	CUdeviceptr b = device_alloc(count * sizeof(float));
	CUdeviceptr c;
	size_t at[SAMPLES] = {0, count / 2, count - 1}, i;

	device_fill(a, bits(v), count, stream);
	device_scale(b, a, 3, count, stream);
	c = device_alloc(count * sizeof(float));
	device_add(c, a, b, count, stream);
	device_free(a);
	device_free(b);
	for (i = 0; i < SAMPLES; i++)
		CHECK(cuMemcpyDtoHAsync(out + i, c + at[i] * sizeof(float), sizeof(float), stream));
	device_free(c);
}

int main(void)
{
	int turns, i, j, wrong = 0;
	uint64_t random = 1;
	float *out;

	device_open();
	turns = tell_simulated() ? SIMULATED_TURNS : TURNS;
	for (i = 0; i < STREAMS; i++)
		streams[i] = device_stream();
	CHECK(cuMemHostAlloc((void **)&out, (size_t)turns * SAMPLES * sizeof(*out), 0));
	for (i = 0; i < turns; i++) {
		/* From 4 bytes up to 4 MiB, each order of magnitude as often as the others. */
		size_t most = (size_t)1 << (1 + device_random(&random) % 20);

		turn(streams[i % STREAMS], (float)(i % 1000), 1 + device_random(&random) % most,
		     out + (size_t)i * SAMPLES);
	}
	CHECK(cuCtxSynchronize());
	for (i = 0; i < turns; i++)
		for (j = 0; j < SAMPLES; j++)
			wrong += out[i * SAMPLES + j] != 4 * (float)(i % 1000);
	printf("turns: %d\nwrong: %d\ndigest: %016llx\n", turns, wrong,
	       (unsigned long long)tell_digest(0, out, (size_t)turns * SAMPLES * sizeof(*out)));
	CHECK(cuMemFreeHost(out));
	library_leave_figures();
	return wrong != 0;
}
