/* SPDX-License-Identifier: MIT */
/*
 * Kernels. The simulator runs no GPU code: a kernel is what a module's text says of it (README.md):
 * its parameters, how long it takes, what it reads and writes, and one of a few operations that it
 * performs, so that a program can check its results. A kernel out of a real binary has a name and
 * the plan's default duration, and no effect. Caller locks.
 */
#ifndef CM_SIM_KERNEL_H
#define CM_SIM_KERNEL_H

#include "operation.h"

enum { SIM_KERNEL_NAME = 96, SIM_KERNEL_PARAMS = 16, SIM_KERNEL_TOUCHES = 8, SIM_KERNEL_ARGS = 4 };

/* A number given as text: itself, or a parameter times it. */
struct sim_amount {
	int param; /* -1: none */
	uint64_t factor;
};

struct sim_kernel_touch {
	int param; /* holds the address */
	struct sim_amount bytes;
	bool write;
};

enum sim_kernel_do {
	SIM_KERNEL_NOTHING,
	SIM_KERNEL_FILL,  /* dst value count: 32-bit words */
	SIM_KERNEL_COPY,  /* dst src count: bytes */
	SIM_KERNEL_ADD,   /* dst a b count: floats */
	SIM_KERNEL_SCALE, /* dst src factor count: floats */
};

struct sim_kernel {
	char name[SIM_KERNEL_NAME];
	unsigned param_count;
	unsigned param_bytes[SIM_KERNEL_PARAMS];
	uint64_t time_ns;
	struct sim_amount more_ns;
	unsigned touch_count;
	struct sim_kernel_touch touches[SIM_KERNEL_TOUCHES];
	enum sim_kernel_do what;
	int args[SIM_KERNEL_ARGS]; /* parameters of the operation */
	int until; /* runs until the word this parameter points to is not 0; or -1 */
};

/* One launch: the kernel as it was, and its parameters' bytes. */
struct sim_kernel_run {
	struct sim_kernel kernel;
	CUcontext ctx; /* of the function; the kernel reaches what that can, whatever the stream */
	uint64_t values[SIM_KERNEL_PARAMS];
};

/* The value of a parameter as an unsigned number. */
uint64_t sim_kernel_value(const struct sim_kernel_run *run, int param);
uint64_t sim_kernel_amount(const struct sim_kernel_run *run, const struct sim_amount *amount);

bool sim_kernel_visit(const struct sim_kernel_run *run,
		      bool (*see)(const struct sim_touch *touch, void *data), void *data);
void sim_kernel_execute(const struct sim_kernel_run *run);
bool sim_kernel_is_over(const struct sim_kernel_run *run);

#endif
