/* SPDX-License-Identifier: MIT */
/*
 * A library that finds the driver by itself, as those do that are loaded with RTLD_DEEPBIND or into
 * a namespace of their own: its dlsym is the C library's then.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

static void *driver;

PUBLIC int caller_open(const char *path);
PUBLIC void *caller_find(const char *name);
PUBLIC int caller_start(void);
PUBLIC CUresult caller_alloc(CUdeviceptr *addr, size_t bytes);
PUBLIC CUresult caller_free(CUdeviceptr addr);

PUBLIC int caller_open(const char *path)
{
	driver = dlopen(path, RTLD_NOW);
	return driver != NULL;
}

/* A function of its own driver. */
PUBLIC void *caller_find(const char *name)
{
	return dlsym(driver, name);
}

/* A context of its own driver, where it has one. */
PUBLIC int caller_start(void)
{
	__typeof__(cuInit) *init = (__typeof__(init))dlsym(driver, "cuInit");
	__typeof__(cuCtxCreate_v2) *create = (__typeof__(create))dlsym(driver, "cuCtxCreate_v2");
	CUcontext ctx;

	return init && create && init(0) == CUDA_SUCCESS && create(&ctx, 0, 0) == CUDA_SUCCESS;
}

PUBLIC CUresult caller_alloc(CUdeviceptr *addr, size_t bytes)
{
	__typeof__(cuMemAlloc_v2) *alloc = (__typeof__(alloc))dlsym(driver, "cuMemAlloc_v2");

	return alloc(addr, bytes);
}

PUBLIC CUresult caller_free(CUdeviceptr addr)
{
	__typeof__(cuMemFree_v2) *give = (__typeof__(give))dlsym(driver, "cuMemFree_v2");

	return give(addr);
}
