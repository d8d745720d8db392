/* SPDX-License-Identifier: MIT */
/*
 * Destroying contexts by their handle, which may be primary ones. Thread-safe.
 */
#ifndef CM_INTERPOSE_WRAPPERS_PRIMARY_H
#define CM_INTERPOSE_WRAPPERS_PRIMARY_H

#include <stdbool.h>

#include "interpose/symbols/hooks.h"

/* Destroys or detaches a context by `real`; the driver decides whether it ends. Blocks. If the
 * context is primary, or may be, other calls for that device's primary context wait. */
CUresult cm_context_end(CUcontext ctx, bool detaches, CUresult (*real)(CUcontext ctx));

#endif
