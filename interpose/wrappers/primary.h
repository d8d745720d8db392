/* SPDX-License-Identifier: MIT */
/*
 * The end of contexts by their handle, which may be primary ones.
 */
#ifndef CM_INTERPOSE_WRAPPERS_PRIMARY_H
#define CM_INTERPOSE_WRAPPERS_PRIMARY_H

#include <stdbool.h>

#include "interpose/symbols/hooks.h"

/* Destroys a context, or detaches it: it goes or stays by the driver's word. One that is primary,
 * or may be, is nobody else's meanwhile. */
CUresult cm_context_end(CUcontext ctx, bool detaches, CUresult (*real)(CUcontext ctx));

#endif
