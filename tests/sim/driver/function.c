/* SPDX-License-Identifier: MIT */
/* What can be asked of a kernel: the same imaginary figures for all of them. */
#include "context.h"
#include "module.h"

enum {
	MAX_THREADS = 1024,
	THREADS_PER_MULTIPROCESSOR = 2048,
	BLOCKS_PER_MULTIPROCESSOR = 32,
	SHARED_PER_BLOCK = 49152,
	REGISTERS = 32,
	VERSION = 90,
};

CUresult sim_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
	const struct sim_function *function = sim_function_of(hfunc);

	if (!pi)
		return CUDA_ERROR_INVALID_VALUE;
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	switch ((int)attrib) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*pi = MAX_THREADS;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*pi = REGISTERS;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*pi = VERSION;
		return CUDA_SUCCESS;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*pi = function->dynamic_shared ? function->dynamic_shared : SHARED_PER_BLOCK;
		return CUDA_SUCCESS;
	default:
		*pi = 0;
		return (unsigned)attrib < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS
								: CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult sim_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
	struct sim_function *function = sim_function_of(hfunc);

	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((unsigned)attrib >= CU_FUNC_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	if (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
		function->dynamic_shared = value;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
	(void)config;
	return sim_function_of(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
	(void)config;
	return sim_function_of(hfunc) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
	struct sim_function *function = sim_function_of(hfunc);

	if (!hmod || !function)
		return CUDA_ERROR_INVALID_HANDLE;
	*hmod = (CUmodule)(void *)function->module;
	return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetName(const char **name, CUfunction hfunc)
{
	const struct sim_function *function = sim_function_of(hfunc);

	if (!name || !function)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = function->kernel.name;
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func,
							 int blockSize, size_t dynamicSMemSize)
{
	int blocks;

	(void)dynamicSMemSize;
	if (!numBlocks || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_of(func))
		return CUDA_ERROR_INVALID_HANDLE;
	blocks = THREADS_PER_MULTIPROCESSOR / blockSize;
	*numBlocks = blocks < BLOCKS_PER_MULTIPROCESSOR ? blocks : BLOCKS_PER_MULTIPROCESSOR;
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
								  int blockSize,
								  size_t dynamicSMemSize,
								  unsigned int flags)
{
	if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
		return CUDA_ERROR_INVALID_VALUE;
	return sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(numBlocks, func, blockSize,
							       dynamicSMemSize);
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
					      CUoccupancyB2DSize blockSizeToDynamicSMemSize,
					      size_t dynamicSMemSize, int blockSizeLimit)
{
	int multiprocessors;
	CUresult result;

	(void)blockSizeToDynamicSMemSize;
	(void)dynamicSMemSize;
	if (!minGridSize || !blockSize)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_of(func))
		return CUDA_ERROR_INVALID_HANDLE;
	result = sim_cuDeviceGetAttribute(&multiprocessors,
					  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					  sim_ctx_current()->device->ordinal);
	if (result != CUDA_SUCCESS)
		return result;
	*blockSize = blockSizeLimit > 0 && blockSizeLimit < MAX_THREADS ? blockSizeLimit
									: MAX_THREADS;
	*minGridSize = multiprocessors * (THREADS_PER_MULTIPROCESSOR / MAX_THREADS);
	return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
						     int numBlocks, int blockSize)
{
	if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_function_of(func))
		return CUDA_ERROR_INVALID_HANDLE;
	*dynamicSmemSize = SHARED_PER_BLOCK / (size_t)numBlocks;
	return CUDA_SUCCESS;
}
