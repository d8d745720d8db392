/* SPDX-License-Identifier: MIT */
/* Launching kernels, and what can be asked of them. */
#include <string.h>

#include "registry.h"
#include "runtime.h"

#define EXPORT __attribute__((visibility("default")))

/* What the compiler's code for <<< >>> calls; see registry.c. */
unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
				     struct CUstream_st *stream);
cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
				       void *stream);
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
			       size_t sharedMem, cudaStream_t stream);
cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
				    size_t sharedMem, cudaStream_t stream);

enum { CONFIGURATIONS = 16 };

/* A <<< >>> whose arguments are being evaluated; they may hold another one. */
struct configuration {
	dim3 grid;
	dim3 block;
	size_t shared;
	cudaStream_t stream;
};

static __thread struct configuration configurations[CONFIGURATIONS];
static __thread unsigned configuration_count;

/* 0, or not when the launch is to be left out. */
EXPORT unsigned __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
					    struct CUstream_st *stream)
{
	if (configuration_count == CONFIGURATIONS) {
		(void)rt_leave(cudaErrorInvalidConfiguration);
		return 1;
	}
	configurations[configuration_count++] = (struct configuration){
		.grid = gridDim, .block = blockDim, .shared = sharedMem, .stream = stream};
	return 0;
}

EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
					      void *stream)
{
	const struct configuration *top;

	if (!configuration_count)
		return rt_leave(cudaErrorMissingConfiguration);
	top = &configurations[--configuration_count];
	*gridDim = top->grid;
	*blockDim = top->block;
	*sharedMem = top->shared;
	memcpy(stream, &top->stream, sizeof(top->stream));
	return cudaSuccess;
}

/* A bad grid is told by a code of the runtime's own. */
static cudaError_t launched(CUresult result)
{
	return result == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration
						  : rt_error(result);
}

cudaError_t rt_cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
				size_t sharedMem, cudaStream_t stream)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return launched(rt_driver()->cuLaunchKernel(function, gridDim.x, gridDim.y, gridDim.z,
						    blockDim.x, blockDim.y, blockDim.z,
						    (unsigned)sharedMem, stream, args, NULL));
}

cudaError_t rt_cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim,
					   void **args, size_t sharedMem, cudaStream_t stream)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return launched(rt_driver()->cuLaunchCooperativeKernel(
		function, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
		(unsigned)sharedMem, stream, args));
}

cudaError_t rt_cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
	CUfunction function;
	CUlaunchConfig translated;
	cudaError_t error;

	if (!config)
		return cudaErrorInvalidValue;
	error = rt_registry_find_function(func, &function);
	if (error != cudaSuccess)
		return error;
	/* Attributes are laid out alike in both interfaces. */
	translated = (CUlaunchConfig){
		.gridDimX = config->gridDim.x,
		.gridDimY = config->gridDim.y,
		.gridDimZ = config->gridDim.z,
		.blockDimX = config->blockDim.x,
		.blockDimY = config->blockDim.y,
		.blockDimZ = config->blockDim.z,
		.sharedMemBytes = (unsigned)config->dynamicSmemBytes,
		.hStream = config->stream,
		.attrs = (CUlaunchAttribute *)(void *)config->attrs,
		.numAttrs = config->numAttrs,
	};
	return launched(rt_driver()->cuLaunchKernelEx(&translated, function, args, NULL));
}

static cudaError_t launch_handle(cudaKernel_t kernel, dim3 grid, dim3 block, void **args,
				 size_t shared, cudaStream_t stream, bool per_thread)
{
	cudaError_t error = rt_enter(RT_CTX, per_thread);

	if (error == cudaSuccess)
		error = rt_cudaLaunchKernel(kernel, grid, block, args, shared, stream);
	return rt_leave(error);
}

EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
				      size_t sharedMem, cudaStream_t stream)
{
	return launch_handle(kernel, gridDim, blockDim, args, sharedMem, stream, false);
}

EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim,
					   void **args, size_t sharedMem, cudaStream_t stream)
{
	return launch_handle(kernel, gridDim, blockDim, args, sharedMem, stream, true);
}

cudaError_t rt_cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
	const struct {
		int *place;
		CUfunction_attribute attribute;
	} asked[] = {
		{&attr->maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
		{&attr->numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS},
		{&attr->ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION},
		{&attr->binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION},
		{&attr->maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
	};
	CUfunction function;
	cudaError_t error;

	if (!attr)
		return cudaErrorInvalidValue;
	error = rt_registry_find_function(func, &function);
	if (error == cudaSuccess)
		memset(attr, 0, sizeof(*attr));
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]) && error == cudaSuccess; i++)
		error = rt_error(rt_driver()->cuFuncGetAttribute(asked[i].place, asked[i].attribute,
								 function));
	return error;
}

cudaError_t rt_cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return rt_error(
		rt_driver()->cuFuncSetAttribute(function, (CUfunction_attribute)attr, value));
}

cudaError_t rt_cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuFuncSetCacheConfig(function, (CUfunc_cache)cacheConfig));
}

cudaError_t rt_cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuFuncSetSharedMemConfig(function, (CUsharedconfig)config));
}

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
	int *numBlocks, const void *func, int blockSize, size_t dynamicSMemSize, unsigned int flags)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, function, blockSize, dynamicSMemSize, flags));
}

cudaError_t rt_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
							     int blockSize, size_t dynamicSMemSize)
{
	return rt_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
		numBlocks, func, blockSize, dynamicSMemSize, cudaOccupancyDefault);
}

cudaError_t rt_cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
							 int numBlocks, int blockSize)
{
	CUfunction function;
	cudaError_t error = rt_registry_find_function(func, &function);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuOccupancyAvailableDynamicSMemPerBlock(
		dynamicSmemSize, function, numBlocks, blockSize));
}
