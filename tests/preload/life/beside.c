/* SPDX-License-Identifier: MIT */
/*
 * Another preloaded library with hooks of its own, written as such libraries are: it counts, and
 * passes on to whoever is next. Also one of malloc, which is called while the process is made, and
 * from inside the loader.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

extern unsigned beside_allocs, beside_frees, beside_mallocs;
PUBLIC unsigned beside_allocs;
PUBLIC unsigned beside_frees;
PUBLIC unsigned beside_mallocs;

PUBLIC CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	__typeof__(cuMemAlloc_v2) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemAlloc_v2");

	beside_allocs++;
	return next(dptr, bytesize);
}

PUBLIC CUresult cuMemFree_v2(CUdeviceptr dptr)
{
	__typeof__(cuMemFree_v2) *next = (__typeof__(next))dlsym(RTLD_NEXT, "cuMemFree_v2");

	beside_frees++;
	return next(dptr);
}

/* Not fit for several threads, and need not be. */
/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc hides its own */
PUBLIC void *malloc(size_t bytes)
{
	static void *(*next)(size_t bytes);
	static char first[4096] __attribute__((aligned(16)));
	static size_t used;
	static int inside;
	void *here = first + used;

	if (!next && !inside) {
		inside = 1;
		next = (__typeof__(next))dlsym(RTLD_NEXT, "malloc");
		inside = 0;
	}
	beside_mallocs++;
	if (next)
		return next(bytes);
	used += (bytes + 15) & ~(size_t)15;
	return used <= sizeof(first) ? here : NULL;
}
