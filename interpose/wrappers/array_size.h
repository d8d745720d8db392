/* SPDX-License-Identifier: MIT */
/*
 * How much memory an array is, by its description: width * height * depth * what an element takes.
 * What the driver adds for its own layout is not known. Pure.
 */
#ifndef CM_INTERPOSE_WRAPPERS_ARRAY_SIZE_H
#define CM_INTERPOSE_WRAPPERS_ARRAY_SIZE_H

#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* With all its mipmap levels (1: no more than itself). 0 where the array has no memory of its own
 * (sparse, or mapped later), or its format is none we know. */
uint64_t cm_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
uint64_t cm_array_size_2d(const CUDA_ARRAY_DESCRIPTOR *shape);

#endif
