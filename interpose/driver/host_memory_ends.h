/* SPDX-License-Identifier: MIT */
/*
 * Whether a copy or a fill reaches memory that the host can see, by the addresses that it names. An
 * address that neither our tables nor the driver know is pageable memory of the host. Thread-safe.
 * Asks the driver only about addresses outside the cache; legal during captures.
 */
#ifndef CM_INTERPOSE_DRIVER_HOST_MEMORY_ENDS_H
#define CM_INTERPOSE_DRIVER_HOST_MEMORY_ENDS_H

#include <stdbool.h>
#include <stddef.h>

#include "interpose/symbols/hooks.h"

/* An address of unified memory. */
bool cm_end_is_host(CUdeviceptr addr);

/* An address that the caller takes for device memory. It can be host memory only once some
 * memory is mapped or managed (cm_host_work_has_kernels). */
bool cm_end_of_device_is_host(CUdeviceptr addr);

/* One end of a copy in 2D or 3D. `addr` counts if the type is unified or device memory. */
bool cm_end_of_box_is_host(CUmemorytype type, CUdeviceptr addr);

/* The same, but false for an end that the caller says is memory of the host. */
bool cm_end_of_box_is_mapped(CUmemorytype type, CUdeviceptr addr);

/* Any of the ends of a batch. */
bool cm_ends_of_list_are_host(const CUdeviceptr *list, size_t count);
bool cm_ends_of_boxes_are_host(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count);
bool cm_ends_of_unpacked_are_host(const CUmemDecompressParams *list, size_t count);

#endif
