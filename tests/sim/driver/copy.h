/* SPDX-License-Identifier: MIT */
/*
 * Copies between any two places. Caller locks.
 */
#ifndef CM_SIM_COPY_H
#define CM_SIM_COPY_H

#include "operation.h"

/*
 * A copy operation out of CUDA's description of one. CUDA_ERROR_INVALID_VALUE when it does not make
 * sense, or names memory that is not there.
 */
CUresult sim_copy_describe(const CUDA_MEMCPY3D *params, struct sim_op *ret_op);

/*
 * Submits a copy as the function of that kind does: `wait` for those without Async in their name.
 * Pageable memory is treated as "API synchronization behavior" of the driver's manual says: read
 * at once where it is the source, waited for where it is the destination.
 */
CUresult sim_copy_submit(CUstream handle, struct sim_op *op, bool wait);

#endif
