/* SPDX-License-Identifier: MIT */
/*
 * For tests of the simulated driver: a context for each case, on a machine as the test wants it.
 */
#ifndef CM_TESTS_SIM_SIM_TEST_H
#define CM_TESTS_SIM_SIM_TEST_H

#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>

#include "interpose/symbols/newer_cuda.h"
#include "tests/sim/cudasim.h"
#include "tests/unit/cmocka_all.h"

#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define US  ((uint64_t)1000)
#define MS  ((uint64_t)1000000)

#define assert_ok(call)          assert_int_equal(call, CUDA_SUCCESS)
#define assert_error(call, code) assert_int_equal(call, code)

static inline int make_context(void **state)
{
	CUcontext ctx;

	if (cuInit(0) || cuCtxCreate(&ctx, NULL, 0, 0))
		return -1;
	*state = ctx;
	return 0;
}

static inline int drop_context(void **state)
{
	cudasim_clear_failures();
	(void)cuCtxDestroy(*state);
	/* What a case left current for good is gone with its context. */
	(void)cuCtxSetCurrent(NULL);
	return 0;
}

#define with_context(test) CM_TEST_WITH(test, make_context, drop_context)

/* Work for a stream that takes that long: a kernel that touches nothing. */
static inline CUfunction load_kernel(const char *text, const char *name)
{
	CUmodule module;
	CUfunction function;

	assert_ok(cuModuleLoadData(&module, text));
	assert_ok(cuModuleGetFunction(&function, module, name));
	return function;
}

static inline void launch(CUfunction kernel, CUstream stream, void **params)
{
	assert_ok(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
}

#endif
