/* SPDX-License-Identifier: MIT */
/*
 * The device of the programs that speak to the driver: its context, its errors, and a few kernels.
 * On a card they come from kernels.cu, on the simulated device from kernels.sim, which describes
 * the same, so that a program does and finds the same on both. Where a program doesn't mean to see
 * an error, an error ends it. Thread-safe once the device is open; launches need a current context.
 */
#ifndef CM_GPU_KIT_DEVICE_H
#define CM_GPU_KIT_DEVICE_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tell.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Ends the program where the call fails, with its text and the error's name. */
#define CHECK(call) device_check((call), #call)

void device_check(CUresult result, const char *call);
/* CUDA_ERROR_..., for any value. */
const char *device_error(CUresult result);

/*
 * Starts the driver, with the primary context of device 0 current on the calling thread, and loads
 * the kernels into it. Without a device the program is one that can't run here.
 */
void device_open(void);
CUdevice device_first(void);
/* Makes that context current on another thread. */
void device_attach(void);

/* A stream that does not wait for the default stream. */
CUstream device_stream(void);
CUdeviceptr device_alloc(size_t bytes);
void device_free(CUdeviceptr at);

/* Kernels. `count` is of 32-bit words. They return once submitted. */
void device_fill(CUdeviceptr at, uint32_t value, size_t count, CUstream stream);
void device_copy(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream);
/* to = a + b, and to = from * factor: floats. */
void device_add(CUdeviceptr to, CUdeviceptr a, CUdeviceptr b, size_t count, CUstream stream);
void device_scale(CUdeviceptr to, CUdeviceptr from, float factor, size_t count, CUstream stream);
/* One thread that does nothing for so long. */
void device_spin(uint64_t ns, CUstream stream);
/* Fills after so long, and lets what may begin early begin at once: the other one, which may begin
 * before the kernel in front of it has ended, on cards that can (programmatic dependent launch). */
void device_slow_fill(CUdeviceptr at, uint32_t value, size_t count, uint64_t ns, CUstream stream);
void device_early_fill(CUdeviceptr at, uint32_t value, size_t count, CUstream stream);
/* One thread that runs until the word is not 0. */
void device_until(CUdeviceptr word, CUstream stream);

/* Numbers that look random and are the same in every run; `state` is the caller's. */
uint32_t device_random(uint64_t *state);

/* Waits for the stream; how many of the words differ from the value. */
uint64_t device_wrong(CUdeviceptr at, uint32_t value, size_t count, CUstream stream);

/* For programs that make contexts: the calling thread's kernels are the current context's from
 * here. */
void device_load_kernels(void);

#endif
