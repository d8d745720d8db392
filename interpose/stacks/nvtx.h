/* SPDX-License-Identifier: MIT */
/*
 * NVTX ranges as names. A program's copy of NVTX, which is a header, loads the library that
 * NVTX_INJECTION64_PATH names and hands it a table of its own function pointers to fill in: a
 * public interface for tools (nvtx3/nvtxDetail/nvtxTypes.h and nvtxInit.h, NVTX 3). Where that
 * variable names this library, the ranges that nest in a thread are heard of; marks and ranges
 * across threads are not asked for.
 */
#ifndef CM_INTERPOSE_STACKS_NVTX_H
#define CM_INTERPOSE_STACKS_NVTX_H

#include <stdint.h>

#include "interpose/cudamem.h"

typedef const void *cm_nvtx_export_fn(uint32_t id);

/* Called by NVTX, once for each copy of it. 0: what it offers is not understood. */
CUDAMEM_API int InitializeInjectionNvtx2(cm_nvtx_export_fn *get_export_table);

#endif
