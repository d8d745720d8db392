/* SPDX-License-Identifier: MIT */
/*
 * The size of an array by its description: width * height * depth * bytes of an element. The
 * driver's own padding is not known. Pure.
 */
#ifndef CM_INTERPOSE_WRAPPERS_ARRAY_SIZE_H
#define CM_INTERPOSE_WRAPPERS_ARRAY_SIZE_H

#include <stdint.h>

#include "interpose/symbols/hooks.h"

/* The size of an array with all its mipmap levels (1: the array alone). 0 if it has no memory of
 * its own (sparse, or mapped later) or an unknown format. */
uint64_t cm_array_size(const CUDA_ARRAY3D_DESCRIPTOR *shape, unsigned int levels);
uint64_t cm_array_size_2d(const CUDA_ARRAY_DESCRIPTOR *shape);

#endif
