/* SPDX-License-Identifier: MIT */
/*
 * What the waits of a free cost a program that works on streams, in virtual time:
 *
 *   pipeline compute|copies|streams TURNS KERNEL_NS
 *
 * compute: kernels with temporaries, and no memory of the host. copies: two buffers by turns, copy
 * in, three kernels with temporaries, copy out; the host waits for the event behind a buffer's
 * turn. streams: the same with a stream each for copies in, kernels, and copies out.
 *
 * A temporary is freed as soon as the kernel that uses it is launched. What the library does by
 * itself takes no time here; the plan says what the driver's calls take.
 */
#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/cudasim.h"

#define MIB     (1u << 20)
#define BUFFERS 2
#define KERNELS 3
#define WARM    4 /* turns, until the cache has what they need */

#define OK(call)                                                                  \
	do {                                                                      \
		CUresult res_ = (call);                                           \
                                                                                  \
		if (res_ != CUDA_SUCCESS) {                                       \
			(void)fprintf(stderr, "pipeline: %s: %d\n", #call, res_); \
			exit(1);                                                  \
		}                                                                 \
	} while (0)

static const char text[] = "cudasim-module\n"
			   "kernel work\n"
			   " params ptr u64 u64\n"
			   " time 0us 1ns p2\n"
			   " writes p0 p1\n"
			   "end\n";

static CUfunction work;
static CUstream in, compute, out;
static struct {
	void *host;
	CUdeviceptr device;
	CUevent arrived, computed, done;
} buffer[BUFFERS];

static void launch(CUdeviceptr addr, uint64_t ns)
{
	uint64_t bytes = MIB;
	void *params[] = {&addr, &bytes, &ns};

	OK(cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, compute, params, NULL));
}

static void work_with_temporary(uint64_t ns)
{
	CUdeviceptr temporary;

	OK(cuMemAlloc_v2(&temporary, MIB));
	launch(temporary, ns);
	OK(cuMemFree_v2(temporary));
}

/* What is in `to` from now on comes after the event in `from`. */
static void follow(CUstream from, CUevent event, CUstream to)
{
	OK(cuEventRecord(event, from));
	if (from != to)
		OK(cuStreamWaitEvent(to, event, 0));
}

static void turn(unsigned i, bool copies, uint64_t ns)
{
	unsigned b = i % BUFFERS, k;

	if (copies) {
		OK(cuEventSynchronize(buffer[b].done));
		memset(buffer[b].host, (int)i, 64);
		OK(cuMemcpyHtoDAsync_v2(buffer[b].device, buffer[b].host, MIB, in));
		follow(in, buffer[b].arrived, compute);
	}
	for (k = 0; k < KERNELS; k++)
		work_with_temporary(ns);
	if (copies) {
		follow(compute, buffer[b].computed, out);
		OK(cuMemcpyDtoHAsync_v2(buffer[b].host, buffer[b].device, MIB, out));
		OK(cuEventRecord(buffer[b].done, out));
	}
}

static void open_all(bool streams)
{
	CUmodule module;
	CUcontext ctx;
	unsigned b;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuModuleLoadData(&module, text));
	OK(cuModuleGetFunction(&work, module, "work"));
	OK(cuStreamCreate(&compute, CU_STREAM_NON_BLOCKING));
	in = out = compute;
	if (streams) {
		OK(cuStreamCreate(&in, CU_STREAM_NON_BLOCKING));
		OK(cuStreamCreate(&out, CU_STREAM_NON_BLOCKING));
	}
	for (b = 0; b < BUFFERS; b++) {
		OK(cuMemAllocHost_v2(&buffer[b].host, MIB));
		OK(cuMemAlloc_v2(&buffer[b].device, MIB));
		OK(cuEventCreate(&buffer[b].arrived, CU_EVENT_DISABLE_TIMING));
		OK(cuEventCreate(&buffer[b].computed, CU_EVENT_DISABLE_TIMING));
		OK(cuEventCreate(&buffer[b].done, CU_EVENT_DISABLE_TIMING));
	}
}

int main(int argc, char **argv)
{
	const bool compute_only = argc > 1 && !strcmp(argv[1], "compute");
	const unsigned turns = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	const uint64_t ns = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	uint64_t start = 0;
	unsigned i;

	if (!turns || !ns) {
		(void)fputs("usage: pipeline compute|copies|streams TURNS KERNEL_NS\n", stderr);
		return 2;
	}
	open_all(!strcmp(argv[1], "streams"));
	for (i = 0; i < turns + WARM; i++) {
		if (i == WARM) {
			OK(cuCtxSynchronize());
			cudasim_reset_counters();
			start = cudasim_now();
		}
		turn(i, !compute_only, ns);
	}
	OK(cuCtxSynchronize());
	printf("ns %llu\n", (unsigned long long)(cudasim_now() - start));
	printf("turns %u\n", turns);
	printf("calls %llu\n", (unsigned long long)cudasim_calls(NULL));
	/* The program's own waits left out: one a turn, and that at the end. */
	printf("waits %llu\n", (unsigned long long)(cudasim_calls("cuEventSynchronize") +
						    cudasim_calls("cuCtxSynchronize") - 1 -
						    (compute_only ? 0 : turns)));
	return 0;
}
