/* SPDX-License-Identifier: MIT */
/*
 * Primary contexts, for those who end contexts by their handle.
 */
#ifndef CM_INTERPOSE_PRIMARY_H
#define CM_INTERPOSE_PRIMARY_H

#include <stdbool.h>

#include "interpose/hooks.h"

/* Destroys a context that is a primary one, which the driver refuses, or may be; or detaches it. */
CUresult cm_primary_end(CUcontext ctx, CUdevice device, bool detaches,
			CUresult (*real)(CUcontext ctx));

/* In a forked child, where no context is usable. */
void cm_primary_forget_all(void);

#endif
