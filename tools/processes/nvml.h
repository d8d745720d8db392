/* SPDX-License-Identifier: MIT */
/*
 * The processes on each device according to NVML, including those that do not use libcudamem. The
 * library is loaded at run time. In containers it is often missing, or sees no process.
 */
#ifndef CM_TOOLS_PROCESSES_NVML_H
#define CM_TOOLS_PROCESSES_NVML_H

#include <stdint.h>
#include <sys/types.h>

struct cm_nvml_process {
	pid_t pid;
	uint32_t device; /* as NVML counts them */
	const char *uuid;
	const char *model;
	int64_t total_bytes;
	int64_t bytes; /* device memory of the process; -1: unknown */
};

typedef void (*cm_nvml_fn)(void *data, const struct cm_nvml_process *process);

/*
 * Calls `fn` for each compute process of each device; the texts are valid during the call. 0, or -1
 * with the reason in *ret_why, a constant.
 */
int cm_nvml_processes(cm_nvml_fn fn, void *data, const char **ret_why);

#endif
