/* SPDX-License-Identifier: MIT */
/* How long a process takes to its first block: the driver's start, the context, the first
 * request. */
#include <cuda.h>
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

static uint64_t began;

static void step(const char *name)
{
	uint64_t now = tell_now();

	tell_fact("first block", (double)(now - began), "ns", "%s", name);
	began = now;
}

int main(void)
{
	CUcontext context;
	CUdeviceptr at;
	CUdevice device;

	began = tell_now();
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	step("cuInit");
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	step("context");
	at = device_alloc(1000);
	step("first cuMemAlloc");
	device_free(at);
	at = device_alloc(1000);
	step("cuMemFree and the second");
	device_free(at);
	library_leave_figures();
	return 0;
}
