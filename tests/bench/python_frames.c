/* SPDX-License-Identifier: MIT */
/*
 * What recording the stacks of a Python program costs: python_frames.py calls this below a known
 * number of Python frames. A pair of cuMemAlloc and cuMemFree is timed without a stack, with the
 * Python frames, and with those of C too by turns, switched by the program itself (cudamem.h).
 */
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "clock.h"
#include "interpose/cudamem.h"

#define EXPORT     __attribute__((visibility("default")))
#define PAIRS      500
#define ROUNDS_MAX 10000

/* Called by the script; each returns 0, or what failed. */
EXPORT int start(void);
EXPORT int play(int pairs);
EXPORT int measure(int rounds, double *ret_ns);

static __typeof__(cudamem_record_memory_history) *record;

/* Which stacks are recorded; NULL: none. */
static const char *const turns[] = {NULL, "python", "all"};
#define TURNS (sizeof(turns) / sizeof(turns[0]))

static double times[TURNS][ROUNDS_MAX];

static int set(const char *stacks)
{
	return record("all", stacks ? "alloc" : NULL, stacks ? stacks : "all", UINT64_MAX, 0);
}

/* So many pairs with what is recorded now. */
int play(int pairs)
{
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr block;
	int i;

	for (i = 0; i < pairs && !result; i++) {
		result = cuMemAlloc_v2(&block, 1 << 20);
		if (!result)
			result = cuMemFree_v2(block);
	}
	return (int)result;
}

/* Makes a device current and lets Python frames be recorded. */
int start(void)
{
	CUcontext context;

	*(void **)(void *)&record = dlsym(RTLD_DEFAULT, "cudamem_record_memory_history");
	if (!record)
		return -1;
	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return -2;
	return play(1) || set("python") ? -3 : 0;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The median time of a pair in nanoseconds for each of the turns. */
int measure(int rounds, double *ret_ns)
{
	uint64_t began;
	int round;
	size_t i;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		return -1;
	for (round = -1; round < rounds; round++) {
		for (i = 0; i < TURNS; i++) {
			if (set(turns[i]))
				return -2;
			began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
			if (play(PAIRS))
				return -3;
			if (round >= 0)
				times[i][round] =
					(double)(clock_ns(CLOCK_THREAD_CPUTIME_ID) - began) / PAIRS;
		}
	}
	for (i = 0; i < TURNS; i++) {
		qsort(times[i], (size_t)rounds, sizeof(times[i][0]), compare);
		ret_ns[i] = times[i][rounds / 2];
	}
	return 0;
}
