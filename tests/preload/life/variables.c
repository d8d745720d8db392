/* SPDX-License-Identifier: MIT */
/*
 * A program that keeps the driver's functions in variables of their names, as the loaders of some
 * renderers do. The names are exported, and are data. A function of its own has the name of one of
 * the library's. CACHED in the environment: the library is there.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define VARIABLE(result, name, ...)         \
	extern result (*name)(__VA_ARGS__); \
	__attribute__((visibility("default"))) result (*name)(__VA_ARGS__)

VARIABLE(int, cuInit, unsigned int);
VARIABLE(int, cuCtxCreate_v2, void **, unsigned int, int);
VARIABLE(int, cuCtxSynchronize, void);
VARIABLE(int, cuMemAlloc_v2, uint64_t *, size_t);
VARIABLE(int, cuMemFree_v2, uint64_t);
VARIABLE(uint64_t, cudasim_calls, const char *);

__attribute__((visibility("default"))) size_t cudamem_memory_stats(void);

size_t cudamem_memory_stats(void)
{
	return 0;
}

#define FIND(driver, name) ((name = (__typeof__(name))dlsym(driver, #name)) != NULL)

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
	uint64_t block, again;

	if (!driver || !FIND(driver, cuInit) || !FIND(driver, cuCtxCreate_v2) ||
	    !FIND(driver, cuCtxSynchronize) || !FIND(driver, cuMemAlloc_v2) ||
	    !FIND(driver, cuMemFree_v2) || !FIND(driver, cudasim_calls))
		return 2;
	if (cuInit(0) || cuCtxCreate_v2(&ctx, 0, 0) || cuMemAlloc_v2(&block, 1 << 20) ||
	    cuMemFree_v2(block) || cuCtxSynchronize() || cuMemAlloc_v2(&again, 1 << 20) ||
	    cuMemFree_v2(again))
		return 3;
	return cudasim_calls("cuMemAlloc_v2") != (getenv("CACHED") ? 1 : 2);
}
