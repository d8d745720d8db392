/* SPDX-License-Identifier: MIT */
/*
 * Modules and their functions. Library and module, kernel and function, are one here. Caller locks.
 */
#ifndef CM_SIM_MODULE_H
#define CM_SIM_MODULE_H

#include "kernel.h"
#include "object.h"

struct sim_ctx;
struct sim_mem;

struct sim_function {
	struct sim_object object;
	struct sim_module *module;
	struct sim_function *next;
	int dynamic_shared; /* as set, bytes */
	struct sim_kernel kernel;
};

struct sim_global {
	struct sim_global *next;
	struct sim_mem *mem;
	char name[SIM_KERNEL_NAME];
};

struct sim_module {
	struct sim_object object;
	struct sim_ctx *ctx;
	struct sim_module *next; /* of the context */
	bool opaque;             /* a real binary: any name is a function of it */
	struct sim_function *functions;
	struct sim_global *globals;
};

void sim_module_destroy(struct sim_module *module);

struct sim_function *sim_function_of(CUfunction handle);

#endif
