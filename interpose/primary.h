/* SPDX-License-Identifier: MIT */
/*
 * Primary contexts, for those who end contexts by their handle.
 */
#ifndef CM_INTERPOSE_PRIMARY_H
#define CM_INTERPOSE_PRIMARY_H

#include "interpose/hooks.h"

/* Ends a primary context by its handle, which the driver refuses. */
CUresult cm_primary_destroy(CUcontext ctx, CUdevice device, CUresult (*real)(CUcontext ctx));

/* In a forked child, where no context is usable. */
void cm_primary_forget_all(void);

#endif
