/* SPDX-License-Identifier: MIT */
/*
 * Arrays: boxes of elements in device memory of their own, rows without gaps. Caller locks.
 */
#ifndef CM_SIM_ARRAY_H
#define CM_SIM_ARRAY_H

#include "memory.h"
#include "object.h"

struct sim_array {
	struct sim_object object;
	uint64_t base;
	struct sim_mem *mem; /* NULL: a level, whose memory is its mipmap's */
	CUDA_ARRAY3D_DESCRIPTOR shape;
};

struct sim_array *sim_array_of(CUarray handle);

size_t sim_array_pitch(const struct sim_array *array);
size_t sim_array_slice(const struct sim_array *array);
size_t sim_array_bytes(const struct sim_array *array);

#endif
