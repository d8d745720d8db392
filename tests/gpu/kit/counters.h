/* SPDX-License-Identifier: MIT */
/* What kernels.cu and device.c must agree on; kernels.sim has it as bytes. */
#ifndef CM_GPU_KIT_COUNTERS_H
#define CM_GPU_KIT_COUNTERS_H

/* Threads that compare at once, each with a counter of 64 bits. */
#define KIT_COUNTERS 64

#endif
