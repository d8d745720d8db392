/* SPDX-License-Identifier: MIT */
/*
 * The driver as the runtime sees it: pointers got from cuGetProcAddress, the way the real runtime
 * was seen to get them. Thread-safe.
 */
#ifndef CM_SIM_RUNTIME_DRIVER_H
#define CM_SIM_RUNTIME_DRIVER_H

/* Both headers then declare plain and per-thread names side by side. */
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>

struct rt_driver {
#define DRIVER(name, base, version)                            __typeof__(name) *name;
#define DRIVER_PAIR(name, base, version, suffix, ptsz_version) __typeof__(name) *name;
#include "driver.def"
#undef DRIVER
#undef DRIVER_PAIR
};

/*
 * Binds at the first call. cudaErrorInsufficientDriver when there is no driver, or one older than
 * the runtime; the same answer ever after.
 */
cudaError_t rt_driver_bind(void);

/* The version that the driver says it has, 0 where there is none. After rt_driver_bind(). */
int rt_driver_version(void);

/* The plain functions, or those for which stream 0 is the thread's own. */
const struct rt_driver *rt_driver_table(bool per_thread);

#endif
