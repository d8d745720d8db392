/* SPDX-License-Identifier: MIT */
/*
 * Functions of a driver that the simulated one has not, as far as a caller can tell that they are
 * there: each answers what is planned, and keeps its first and last argument. Behind the library in
 * the search order, like the driver itself.
 */
#include "tests/preload/surface/more.h"

#include <stddef.h>
#include <stdint.h>

#define PUBLIC __attribute__((visibility("default")))

PUBLIC struct more more;

static CUresult answer(uintptr_t first, uintptr_t last)
{
	more.calls++;
	more.first = first;
	more.last = last;
	if (!more.failures)
		return CUDA_SUCCESS;
	more.failures--;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

PUBLIC CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
				 unsigned int flags)
{
	static int any;

	(void)desc;
	(void)dev;
	*phCtx = (CUgreenCtx)(void *)&any;
	return answer((uintptr_t)phCtx, flags);
}

PUBLIC CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
				       int priority)
{
	(void)greenCtx;
	(void)flags;
	return answer((uintptr_t)phStream, (uintptr_t)priority);
}

PUBLIC CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
				  const CUmulticastObjectProp *prop)
{
	return answer((uintptr_t)mcHandle, (uintptr_t)prop);
}

PUBLIC CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
	return answer(mcHandle, (uintptr_t)dev);
}

PUBLIC CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				   CUmemGenericAllocationHandle memHandle, size_t memOffset,
				   size_t size, unsigned long long flags)
{
	(void)mcOffset;
	(void)memHandle;
	(void)memOffset;
	(void)size;
	return answer(mcHandle, flags);
}

PUBLIC CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
				      size_t mcOffset, CUmemGenericAllocationHandle memHandle,
				      size_t memOffset, size_t size, unsigned long long flags)
{
	(void)dev;
	(void)mcOffset;
	(void)memHandle;
	(void)memOffset;
	(void)size;
	return answer(mcHandle, flags);
}

PUBLIC CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
				    CUdeviceptr memptr, size_t size, unsigned long long flags)
{
	(void)mcOffset;
	(void)memptr;
	(void)size;
	return answer(mcHandle, flags);
}

PUBLIC CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
				       size_t mcOffset, CUdeviceptr memptr, size_t size,
				       unsigned long long flags)
{
	(void)dev;
	(void)mcOffset;
	(void)memptr;
	(void)size;
	return answer(mcHandle, flags);
}

PUBLIC CUresult cuFuncLoad(CUfunction function)
{
	return answer((uintptr_t)function, (uintptr_t)function);
}

PUBLIC CUresult cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
				    const char *name)
{
	(void)bytes;
	(void)library;
	return answer((uintptr_t)dptr, (uintptr_t)name);
}

PUBLIC CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
				     CUdevice dev)
{
	(void)attrib;
	(void)kernel;
	return answer((uintptr_t)pi, (uintptr_t)dev);
}

PUBLIC CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
				     CUdevice dev)
{
	(void)val;
	(void)kernel;
	return answer((uintptr_t)attrib, (uintptr_t)dev);
}

PUBLIC CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
	(void)config;
	return answer((uintptr_t)kernel, (uintptr_t)dev);
}

PUBLIC CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
				      CUjit_option *jitOptions, void **jitOptionsValues,
				      unsigned int numJitOptions, CUlibraryOption *libraryOptions,
				      void **libraryOptionValues, unsigned int numLibraryOptions)
{
	(void)fileName;
	(void)jitOptions;
	(void)jitOptionsValues;
	(void)numJitOptions;
	(void)libraryOptions;
	(void)libraryOptionValues;
	return answer((uintptr_t)library, numLibraryOptions);
}

PUBLIC CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph,
				   CUgraphNode *phErrorNode, char *logBuffer, size_t bufferSize)
{
	(void)hGraph;
	(void)phErrorNode;
	(void)logBuffer;
	return answer((uintptr_t)phGraphExec, bufferSize);
}

PUBLIC CUresult cuLaunch(CUfunction f)
{
	return answer((uintptr_t)f, (uintptr_t)f);
}

PUBLIC CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	(void)grid_width;
	return answer((uintptr_t)f, (uintptr_t)grid_height);
}

PUBLIC CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
	(void)grid_width;
	(void)grid_height;
	return answer((uintptr_t)f, (uintptr_t)hStream);
}

PUBLIC CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
						     unsigned int numDevices, unsigned int flags)
{
	(void)numDevices;
	return answer((uintptr_t)launchParamsList, flags);
}

#define BATCH(name)                                                                    \
	PUBLIC CUresult name(CUstream stream, unsigned int count,                      \
			     CUstreamBatchMemOpParams *paramArray, unsigned int flags) \
	{                                                                              \
		(void)count;                                                           \
		(void)paramArray;                                                      \
		return answer((uintptr_t)stream, flags);                               \
	}
BATCH(cuStreamBatchMemOp)
BATCH(cuStreamBatchMemOp_ptsz)

#define SEMAPHORES(name)                                                             \
	PUBLIC CUresult name(const CUexternalSemaphore *extSemArray,                 \
			     const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray, \
			     unsigned int numExtSems, CUstream stream)               \
	{                                                                            \
		(void)paramsArray;                                                   \
		(void)numExtSems;                                                    \
		return answer((uintptr_t)extSemArray, (uintptr_t)stream);            \
	}
SEMAPHORES(cuWaitExternalSemaphoresAsync)
SEMAPHORES(cuWaitExternalSemaphoresAsync_ptsz)
