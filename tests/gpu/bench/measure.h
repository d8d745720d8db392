/* SPDX-License-Identifier: MIT */
/* What is measured of an allocator, the same for each: pairs, turns of a program's loop,
 * threads. */
#ifndef CM_GPU_BENCH_MEASURE_H
#define CM_GPU_BENCH_MEASURE_H

#include <cuda.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct measured {
	const char *name; /* of its facts */
	/* Both end the program where they fail, and are called from several threads at once. */
	CUdeviceptr (*alloc)(size_t bytes, CUstream stream);
	void (*free)(CUdeviceptr at, CUstream stream);
};

/* Measures on the open device, and tells all as facts. */
void measure_all(const struct measured *what);

#ifdef __cplusplus
}
#endif

#endif
