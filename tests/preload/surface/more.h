/* SPDX-License-Identifier: MIT */
/* What more.c is told, and tells. */
#ifndef CM_TESTS_PRELOAD_SURFACE_MORE_H
#define CM_TESTS_PRELOAD_SURFACE_MORE_H

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
#include <stdint.h>

#include "interpose/symbols/newer_cuda.h"

struct more {
	unsigned failures; /* calls to come that answer out of memory */
	unsigned calls;
	uintptr_t first; /* of the last call: its first and its last argument */
	uintptr_t last;
};
extern struct more more;

#endif
