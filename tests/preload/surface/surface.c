/* SPDX-License-Identifier: MIT */
#include "tests/preload/surface/surface.h"

#include "stats/counters.h"

CUcontext cm_open(CUdevice device)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, device));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

CUdeviceptr cm_get(uint64_t bytes)
{
	CUdeviceptr addr = 0;

	OK(cuMemAlloc_v2(&addr, bytes));
	return addr;
}

CUstream cm_new_stream(void)
{
	CUstream stream;

	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

void cm_open_and_warm(void)
{
	cm_open(0);
	OK(cuMemFree_v2(cm_get(MIB)));
	OK(cuCtxSynchronize());
}

uint32_t cm_read_word(CUdeviceptr addr)
{
	uint32_t word;

	OK(cuMemcpyDtoH_v2(&word, addr, sizeof(word)));
	return word;
}

uint64_t cm_ask(CUpointer_attribute attribute, CUdeviceptr addr)
{
	uint64_t answer = 0;

	OK(cuPointerGetAttribute(&answer, attribute, addr));
	return answer;
}

int64_t cm_uncached_bytes(enum cm_uncached_kind kind)
{
	return cm_own_counters(0).other_bytes[kind].current;
}

int64_t cm_uncached_count(enum cm_uncached_kind kind)
{
	return cm_own_counters(0).other_count[kind].current;
}

int64_t cm_reserved(void)
{
	const struct cm_device_row row = cm_own_counters(0);

	return cm_stat_current(&row, CM_STAT_RESERVED_BYTES);
}

int64_t cm_allocated(void)
{
	const struct cm_device_row row = cm_own_counters(0);

	return cm_stat_current(&row, CM_STAT_ALLOCATED_BYTES);
}

CUfunction cm_load(const char *text, const char *name)
{
	CUfunction function;
	CUmodule module;

	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&function, module, name));
	return function;
}

void cm_launch_slow(CUdeviceptr block)
{
	static const char text[] = "cudasim-module\n"
				   "kernel slow\n"
				   " params ptr\n"
				   " time 20ms\n"
				   " writes p0 4096\n"
				   "end\n";
	void *params[] = {&block};

	OK(cuLaunchKernel(cm_load(text, "slow"), 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
}

CUfunction cm_load_hold(void)
{
	static const char text[] = "cudasim-module\n"
				   "kernel hold\n"
				   " params ptr u64 ptr\n"
				   " writes p0 p1\n"
				   " until p2\n"
				   "end\n";

	return cm_load(text, "hold");
}

void cm_launch_hold(CUfunction hold, CUstream stream, CUdeviceptr addr, uint64_t bytes,
		    const volatile uint32_t *flag)
{
	CUdeviceptr word = (uintptr_t)flag;
	void *params[] = {&addr, &bytes, &word};

	OK(cuLaunchKernel(hold, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}
