/* SPDX-License-Identifier: MIT */
/*
 * What both programs of this folder begin with: a context for each case, and pinned memory of a
 * kind in it. No other file includes this.
 */
#ifndef CM_TESTS_PRELOAD_PINNED_PINNED_H
#define CM_TESTS_PRELOAD_PINNED_PINNED_H

#include <cuda.h>

#include "tests/sim/cudasim.h"
#include "tests/unit/cmocka_all.h"

#define KIB   ((size_t)1 << 10)
#define MIB   ((size_t)1 << 20)
#define KINDS 9 /* the flags of cuMemHostAlloc, and cuMemAllocHost */
#define ALLOC "cuMemHostAlloc"

static CUcontext context;

static inline int open_context(void **state)
{
	(void)state;
	cudasim_clear_failures();
	return cuInit(0) != CUDA_SUCCESS || cuCtxCreate(&context, NULL, 0, 0) != CUDA_SUCCESS;
}

static inline int close_context(void **state)
{
	(void)state;
	cudasim_complete_all();
	return cuCtxDestroy(context) != CUDA_SUCCESS;
}

static inline CUresult ask(unsigned kind, size_t bytes, void **ptr)
{
	return kind == KINDS - 1 ? cuMemAllocHost(ptr, bytes) : cuMemHostAlloc(ptr, bytes, kind);
}

static inline void *get_kind(unsigned kind, size_t bytes)
{
	void *ptr = NULL;

	assert_int_equal(ask(kind, bytes, &ptr), CUDA_SUCCESS);
	assert_non_null(ptr);
	return ptr;
}

static inline void *get(size_t bytes)
{
	return get_kind(0, bytes);
}

static inline void put(void *ptr)
{
	assert_int_equal(cuMemFreeHost(ptr), CUDA_SUCCESS);
}

#define CASE(name) CM_TEST_WITH(name, open_context, close_context)

#endif
