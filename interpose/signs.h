/* SPDX-License-Identifier: MIT */
/*
 * What the process shows of itself at its start: whether it may share device memory with others,
 * and whether a debugger or profiler has been injected into CUDA. Looked at once; what is loaded
 * later is not seen. Reads only; the environment comes in as a function.
 */
#ifndef CM_INTERPOSE_SIGNS_H
#define CM_INTERPOSE_SIGNS_H

#include "stats/config.h"

/* The variable or the loaded object that tells of sharing, or NULL. Valid while it is loaded. */
const char *cm_signs_of_sharing(cm_getenv_fn get);

/* The variable that tells of an injected tool, or NULL. */
const char *cm_signs_of_injection(cm_getenv_fn get);

#endif
