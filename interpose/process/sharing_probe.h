/* SPDX-License-Identifier: MIT */
/*
 * What the process shows of itself at its start: whether it may share device memory with others,
 * and whether a debugger or profiler has been injected into CUDA. Looked at once; what is loaded
 * later is not seen. Reads only; the environment comes in as a function.
 */
#ifndef CM_INTERPOSE_PROCESS_SHARING_PROBE_H
#define CM_INTERPOSE_PROCESS_SHARING_PROBE_H

#include "stats/config.h"

/* The variables or loaded objects that tell of it, NULL: none do. Valid while they are loaded. */
struct cm_probe_environment {
	const char *exports; /* memory may be handed to other processes, by handles */
	const char
		*reaches; /* cards other than the GPU may touch memory, and no stream orders them */
};

void cm_probe_sharing(cm_getenv_fn get, struct cm_probe_environment *ret_signs);

/* The variable that tells of an injected tool, or NULL. */
const char *cm_probe_injection(cm_getenv_fn get);

#endif
