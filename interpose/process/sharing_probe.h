/* SPDX-License-Identifier: MIT */
/*
 * Finds out, once at the start, whether the process may share device memory with others, and
 * whether a debugger or profiler is injected into CUDA. Libraries loaded later are not seen. Reads
 * only; the environment comes in as a function.
 */
#ifndef CM_INTERPOSE_PROCESS_SHARING_PROBE_H
#define CM_INTERPOSE_PROCESS_SHARING_PROBE_H

#include "stats/config.h"

/* The variables or loaded objects that show it, NULL: none. Valid while the objects stay loaded. */
struct cm_probe_environment {
	const char *exports; /* memory may be exported to other processes by handles */
	const char *
		reaches; /* devices other than the GPU may access memory, unordered by any stream */
};

void cm_probe_sharing(cm_getenv_fn get, struct cm_probe_environment *ret_found);

/* The variable that names an injected tool, or NULL. */
const char *cm_probe_injection(cm_getenv_fn get);

#endif
