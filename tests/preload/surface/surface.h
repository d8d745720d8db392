/* SPDX-License-Identifier: MIT */
/*
 * What the roles of this folder share. They are linked with the simulated driver, as programs are
 * with -lcuda, and call its functions by the names that it exports.
 */
#ifndef CM_TESTS_PRELOAD_SURFACE_SURFACE_H
#define CM_TESTS_PRELOAD_SURFACE_SURFACE_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose/symbols/newer_cuda.h"
#include "tests/preload/play.h"
#include "tests/sim/cudasim.h"

#define MIB UINT64_C(1048576)

#define OK(call) CM_MUST((call) == CUDA_SUCCESS)

/* Starts CUDA with the primary context of a device, which is current then. */
CUcontext cm_open(CUdevice device);

/* A device block; a failure ends the role. */
CUdeviceptr cm_get(uint64_t bytes);

/* That does not wait for the default stream. */
CUstream cm_new_stream(void);

/* Opens device 0; a megabyte is ready in the cache. */
void cm_open_and_warm(void);

/* Waits for the device. */
uint32_t cm_read_word(CUdeviceptr addr);

/* What cuPointerGetAttribute says of an address, which must be known. */
uint64_t cm_ask(CUpointer_attribute attribute, CUdeviceptr addr);

/* What the counters say of one kind: bytes and pieces that live now. */
int64_t cm_uncached_bytes(enum cm_uncached_kind kind);
int64_t cm_uncached_count(enum cm_uncached_kind kind);

/* Bytes of device 0 that the cache has reserved, and that it has allocated. */
int64_t cm_reserved(void);
int64_t cm_allocated(void);

/* The kernel of that name in a module of this text. */
CUfunction cm_load(const char *text, const char *name);

/* Work on a block, on the default stream, that takes so long of the device's time. */
#define CM_SLOW_NS UINT64_C(20000000)
void cm_launch_slow(CUdeviceptr block);

/* A kernel "hold" that touches `bytes` at an address and runs until the word at `flag` is not 0. */
CUfunction cm_load_hold(void);
void cm_launch_hold(CUfunction hold, CUstream stream, CUdeviceptr addr, uint64_t bytes,
		    const volatile uint32_t *flag);

#endif
