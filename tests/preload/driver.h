/* SPDX-License-Identifier: MIT */
/*
 * The driver as a program has it that opens it by hand, at the path DRIVER: for roles that are
 * linked with nothing of CUDA.
 */
#ifndef CM_TESTS_PRELOAD_DRIVER_H
#define CM_TESTS_PRELOAD_DRIVER_H

#include <cuda.h>
#include <dlfcn.h>

#include "tests/unit/rerun.h"

#define CM_DRIVER_CONTEXTS 2

struct cm_driver {
	__typeof__(cuInit) *init;
	__typeof__(cuDevicePrimaryCtxRetain) *retain;
	__typeof__(cuCtxSetCurrent) *set_current;
	__typeof__(cuMemAlloc) *alloc;
	__typeof__(cuMemFree) *free;
	__typeof__(cuMemGetInfo) *info;
	__typeof__(cuMemHostAlloc) *host_alloc;
	__typeof__(cuMemFreeHost) *host_free;
	CUcontext context[CM_DRIVER_CONTEXTS]; /* the primary ones of the first devices */
};

/* Ends the role where there is no such function. */
#define CM_LOOK_UP(handle, name, pointer) \
	CM_MUST(*(void **)(void *)&(pointer) = dlsym(handle, name))

/* Opens it and starts CUDA on so many devices; the context of the first is current. */
void cm_driver_open(struct cm_driver *driver, int devices);

#endif
