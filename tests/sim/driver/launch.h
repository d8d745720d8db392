/* SPDX-License-Identifier: MIT */
/*
 * What a launch of a kernel does. Caller locks.
 */
#ifndef CM_SIM_LAUNCH_H
#define CM_SIM_LAUNCH_H

#include "operation.h"

/* The operation of a function, or, if that is NULL, of a kernel in a context; that is the current
 * one if it is NULL. */
CUresult sim_launch_describe(CUfunction function, CUkernel kernel, CUcontext ctx, void **params,
			     void **extra, struct sim_op *ret_op);

#endif
