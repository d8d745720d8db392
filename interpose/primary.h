/* SPDX-License-Identifier: MIT */
/*
 * Primary contexts, for those who end contexts by their handle.
 */
#ifndef CM_INTERPOSE_PRIMARY_H
#define CM_INTERPOSE_PRIMARY_H

#include "interpose/hooks.h"

/* Ends by its handle a context that is a primary one, which the driver refuses, or may be. */
CUresult cm_primary_destroy(CUcontext ctx, CUdevice device, CUresult (*real)(CUcontext ctx));

/* In a forked child, where no context is usable. */
void cm_primary_forget_all(void);

#endif
