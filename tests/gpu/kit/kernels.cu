/* SPDX-License-Identifier: MIT */
/*
 * The kernels of device.h, for a card; kernels.sim tells the simulated device of the same. Sums of
 * floats in one order only, so that results are the same to the last bit in every run.
 */
#include "counters.h"

typedef unsigned int u32;
typedef unsigned long long u64;

#define EACH(i, count)                                                        \
	for (u64 i = blockIdx.x * (u64)blockDim.x + threadIdx.x; i < (count); \
	     i += (u64)gridDim.x * blockDim.x)

extern "C" __global__ void fill(u32 *to, u32 value, u64 count)
{
	EACH(i, count)
	to[i] = value;
}

extern "C" __global__ void copy(u32 *to, const u32 *from, u64 bytes)
{
	EACH(i, bytes / sizeof(u32))
	to[i] = from[i];
}

extern "C" __global__ void add(float *to, const float *a, const float *b, u64 count)
{
	EACH(i, count)
	to[i] = a[i] + b[i];
}

extern "C" __global__ void scale(float *to, const float *from, float factor, u64 count)
{
	EACH(i, count)
	to[i] = from[i] * factor;
}

static __device__ u64 now()
{
	u64 ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

extern "C" __global__ void spin(u64 ns)
{
	u64 begin = now();

	while (now() - begin < ns)
		;
}

/* What is behind it in its stream, and may begin early, can begin now. */
extern "C" __global__ void slow_fill(u32 *to, u32 value, u64 count, u64 ns)
{
	u64 begin = now();

#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;");
#endif
	while (now() - begin < ns)
		;
	EACH(i, count)
	to[i] = value;
}

extern "C" __global__ void until(const volatile u32 *word)
{
	while (!*word)
		;
}

extern "C" {
__device__ u64 counters[KIT_COUNTERS];
}

extern "C" __global__ void compare(const u32 *at, u32 value, u64 count, u64 *wrong)
{
	u64 found = 0;

	EACH(i, count)
	found += at[i] != value;
	if (found)
		atomicAdd(wrong, found);
}
