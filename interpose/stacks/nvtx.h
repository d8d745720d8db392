/* SPDX-License-Identifier: MIT */
/*
 * Reads NVTX ranges as annotation names. A program's copy of NVTX, which is a header, loads the
 * library that NVTX_INJECTION64_PATH names and passes it a table of function pointers to fill in: a
 * public interface for tools (nvtx3/nvtxDetail/nvtxTypes.h and nvtxInit.h, NVTX 3). If the variable
 * names this library, ranges that nest in a thread become names; marks and ranges across threads do
 * not. Thread-safe.
 */
#ifndef CM_INTERPOSE_STACKS_NVTX_H
#define CM_INTERPOSE_STACKS_NVTX_H

#include <stdint.h>

#include "interpose/cudamem.h"

typedef const void *cm_nvtx_export_fn(uint32_t id);

/* Called once by each copy of NVTX. Returns 0 if its interface is unknown. */
CUDAMEM_API int InitializeInjectionNvtx2(cm_nvtx_export_fn *get_export_table);

#endif
