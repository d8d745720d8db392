/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/cudasim.h"

/* Absent where the driver is a real one. */
#pragma weak cudasim_calls
#pragma weak cudasim_peak_bytes

/* Time is virtual and no call takes any; freed memory is not guarded, which costs system calls. */
#define PLAN "memory:500G,guard:off"

static CUcontext context;

bool device_is_simulated(void)
{
	return cudasim_calls != NULL;
}

int device_open(void)
{
	CUdevice device;

	if (context)
		return 0;
	(void)setenv("CUDASIM", PLAN, 0);
	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS) {
		fprintf(stderr, "bench: no CUDA device\n");
		return -1;
	}
	return 0;
}

void device_attach(void)
{
	if (context)
		(void)cuCtxSetCurrent(context);
}

struct device_calls device_count(void)
{
	struct device_calls calls = {0};

	if (device_is_simulated()) {
		calls.current = cudasim_calls("cuCtxGetCurrent");
		calls.all = cudasim_calls(NULL) - calls.current;
	}
	return calls;
}

uint64_t device_peak_bytes(void)
{
	return device_is_simulated() ? cudasim_peak_bytes(0) : 0;
}
