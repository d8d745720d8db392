/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's management library, where the machine has it: the processes on each device, those that
 * do not use libcudamem too. Loaded at run time; in containers it is often missing, or blind.
 */
#ifndef CM_TOOLS_PROCESSES_NVML_H
#define CM_TOOLS_PROCESSES_NVML_H

#include <stdint.h>
#include <sys/types.h>

struct cm_nvml_process {
	pid_t pid;
	uint32_t device; /* as the library counts them */
	const char *uuid;
	const char *model;
	int64_t total_bytes;
	int64_t bytes; /* device memory that it has; -1: not told */
};

typedef void (*cm_nvml_fn)(void *data, const struct cm_nvml_process *process);

/*
 * Calls `fn` for each process that computes on a device, once a device. 0, or -1 with half a
 * sentence in *ret_why, a constant text.
 */
int cm_nvml_processes(cm_nvml_fn fn, void *data, const char **ret_why);

#endif
