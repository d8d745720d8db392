/* SPDX-License-Identifier: MIT */
/*
 * The kernels and variables that a compiled program registers before main. A binary of them becomes
 * a module of the driver's in each context, at first use; for the simulated driver it is described
 * by a text, as no GPU code runs there. Thread-safe.
 */
#ifndef CM_SIM_RUNTIME_REGISTRY_H
#define CM_SIM_RUNTIME_REGISTRY_H

#include "runtime.h"

/* The kernel of a host function, or of its handle, in the current context. */
cudaError_t rt_registry_find_function(const void *host, CUfunction *ret_function);
/* The variable of a host variable, in the current context. */
cudaError_t rt_registry_find_variable(const void *host, CUdeviceptr *ret_addr, size_t *ret_bytes);

/* The current context is about to be lost, and the modules in it. */
void rt_registry_forget_context(void);

#endif
