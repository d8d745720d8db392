/* SPDX-License-Identifier: MIT */
/* Managed, mapped and registered memory beside cached blocks: read and written from both sides. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { COUNT = 1 << 16, TURNS = 20 };

#define BYTES (COUNT * sizeof(float))

static CUstream stream;
static uint64_t wrong;

/* 2 * i + 1 by the device, from memory that the host fills. */
static void through_the_device(float *host, CUdeviceptr device)
{
	CUdeviceptr ones = device_alloc(BYTES), sums = device_alloc(BYTES);
	float one = 1;
	uint32_t bits;
	size_t i;

	memcpy(&bits, &one, sizeof(bits));
	for (i = 0; i < COUNT; i++)
		host[i] = (float)i;
	device_fill(ones, bits, COUNT, stream);
	device_scale(sums, device, 2, COUNT, stream);
	device_add(device, sums, ones, COUNT, stream);
	device_free(ones);
	device_free(sums);
	CHECK(cuStreamSynchronize(stream));
	for (i = 0; i < COUNT; i++)
		wrong += host[i] != 2 * (float)i + 1;
}

static void managed(void)
{
	CUdeviceptr at;

	CHECK(cuMemAllocManaged(&at, BYTES, CU_MEM_ATTACH_GLOBAL));
	through_the_device((float *)(uintptr_t)at, at);
	device_free(at);
}

static void mapped(unsigned flags)
{
	CUdeviceptr at;
	void *host;

	CHECK(cuMemHostAlloc(&host, BYTES, flags | CU_MEMHOSTALLOC_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&at, host, 0));
	through_the_device(host, at);
	CHECK(cuMemFreeHost(host));
}

static void registered(void)
{
	CUdeviceptr at;
	void *host = aligned_alloc(64 * KIB, BYTES);

	if (!host)
		tell_failure("no memory");
	CHECK(cuMemHostRegister(host, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(cuMemHostGetDevicePointer(&at, host, 0));
	through_the_device(host, at);
	CHECK(cuMemHostUnregister(host));
	free(host);
}

int main(void)
{
	int i;

	device_open();
	stream = device_stream();
	for (i = 0; i < TURNS; i++) {
		managed();
		mapped(0);
		mapped(CU_MEMHOSTALLOC_PORTABLE);
		mapped(CU_MEMHOSTALLOC_WRITECOMBINED);
		registered();
	}
	printf("turns: %d\nwrong: %llu\n", TURNS, (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
