/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>

#include "instant_driver.h"
#include "tests/sim/cudasim.h"

/* Absent where the driver is a real one. */
#pragma weak cudasim_calls
#pragma weak cudasim_peak_bytes
#pragma weak cudasim_advance
#pragma weak cudasim_now
/* Absent where no instant driver stands before it. */
#pragma weak instant_driver_calls
#pragma weak instant_driver_current_calls

/* Time is virtual and no call takes any; freed memory is not guarded, which costs system calls. */
#define PLAN        "memory:500G,guard:off"
#define PLAN_OF_ALL "devices:16,memory:500G,guard:off"

#define KERNEL  "cudasim-module\nkernel work\n time 10us\nend\n"
#define STEP_NS 12000

static CUcontext context;
static bool shared_out;
static CUfunction kernel;
static uint64_t launches;

bool device_is_simulated(void)
{
	return cudasim_calls != NULL;
}

void device_share_out(void)
{
	shared_out = true;
}

int device_open(void)
{
	CUdevice device;

	if (context)
		return 0;
	(void)setenv("CUDASIM", shared_out ? PLAN_OF_ALL : PLAN, 0);
	if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
	    cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
	    cuCtxSetCurrent(context) != CUDA_SUCCESS) {
		fprintf(stderr, "bench: no CUDA device\n");
		return -1;
	}
	return 0;
}

void device_attach(unsigned number)
{
	CUcontext mine = context;

	if (!context)
		return;
	if (shared_out && cuDevicePrimaryCtxRetain(&mine, (CUdevice)number) != CUDA_SUCCESS)
		mine = NULL;
	(void)cuCtxSetCurrent(mine);
}

struct device_calls device_count(void)
{
	struct device_calls calls = {0};

	if (device_is_simulated()) {
		calls.current = cudasim_calls("cuCtxGetCurrent");
		calls.all = cudasim_calls(NULL) - calls.current - launches;
		calls.ns = device_now();
	}
	if (instant_driver_calls) {
		calls.current += instant_driver_current_calls();
		calls.all += instant_driver_calls();
	}
	return calls;
}

uint64_t device_now(void)
{
	return device_is_simulated() ? cudasim_now() : 0;
}

int device_work_open(void)
{
	CUmodule module;

	if (device_open())
		return -1;
	if (!device_is_simulated() || cuModuleLoadData(&module, KERNEL) != CUDA_SUCCESS ||
	    cuModuleGetFunction(&kernel, module, "work") != CUDA_SUCCESS) {
		fprintf(stderr, "bench: the device is not the simulated one\n");
		return -1;
	}
	return 0;
}

void device_work(void)
{
	launches++;
	(void)cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cudasim_advance(STEP_NS);
}

uint64_t device_mappings(void)
{
	return device_is_simulated() ? cudasim_calls("cuMemMap") : 0;
}

uint64_t device_peak_bytes(void)
{
	return device_is_simulated() ? cudasim_peak_bytes(0) : 0;
}
