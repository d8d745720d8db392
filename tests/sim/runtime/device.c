/* SPDX-License-Identifier: MIT */
/* Devices of the simulated runtime: the current one, flags and attributes. */
#include <stddef.h>
#include <string.h>

#include "registry.h"
#include "runtime.h"

static bool is_device(int device)
{
	return device >= 0 && device < rt_device_count();
}

cudaError_t rt_cudaGetDeviceCount(int *count)
{
	if (!count)
		return cudaErrorInvalidValue;
	*count = rt_device_count();
	return cudaSuccess;
}

cudaError_t rt_cudaGetDevice(int *device)
{
	CUcontext current = NULL;
	CUdevice ordinal;

	if (!device)
		return cudaErrorInvalidValue;
	*device = rt_thread_self()->device;
	if (rt_driver()->cuCtxGetCurrent(&current) == CUDA_SUCCESS && current &&
	    rt_driver()->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS)
		*device = ordinal;
	return cudaSuccess;
}

cudaError_t rt_cudaSetDevice(int device)
{
	return is_device(device) ? rt_use_device(device) : cudaErrorInvalidDevice;
}

cudaError_t rt_cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
	if (!is_device(device))
		return cudaErrorInvalidDevice;
	if (flags & cudaInitDeviceFlagsAreValid) {
		CUresult result = rt_driver()->cuDevicePrimaryCtxSetFlags(device, deviceFlags);

		if (result != CUDA_SUCCESS)
			return rt_error(result);
	}
	return rt_use_device(device);
}

cudaError_t rt_cudaSetDeviceFlags(unsigned int flags)
{
	return rt_error(rt_driver()->cuDevicePrimaryCtxSetFlags(rt_thread_self()->device, flags));
}

cudaError_t rt_cudaGetDeviceFlags(unsigned int *flags)
{
	int active;

	if (!flags)
		return cudaErrorInvalidValue;
	return rt_error(
		rt_driver()->cuDevicePrimaryCtxGetState(rt_thread_self()->device, flags, &active));
}

cudaError_t rt_cudaDeviceSynchronize(void)
{
	return rt_error(rt_driver()->cuCtxSynchronize());
}

cudaError_t rt_cudaDeviceReset(void)
{
	int device = rt_thread_self()->device;
	CUresult result = rt_driver()->cuDevicePrimaryCtxReset(device);

	if (result != CUDA_SUCCESS)
		return rt_error(result);
	rt_registry_forget_context();
	rt_contexts_lost();
	return cudaSuccess;
}

cudaError_t rt_cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
	return rt_error(rt_driver()->cuDeviceGetAttribute(value, (CUdevice_attribute)attr, device));
}

/* The properties that are attributes: where each goes. */
struct property {
	size_t offset;
	bool wide; /* a size_t */
	CUdevice_attribute attribute;
};

#define NUMBER(field, attribute)                                                               \
	{                                                                                      \
		offsetof(struct cudaDeviceProp, field), false, CU_DEVICE_ATTRIBUTE_##attribute \
	}
#define SIZE(field, attribute)                                                                \
	{                                                                                     \
		offsetof(struct cudaDeviceProp, field), true, CU_DEVICE_ATTRIBUTE_##attribute \
	}

static const struct property properties[] = {
	SIZE(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK),
	NUMBER(regsPerBlock, MAX_REGISTERS_PER_BLOCK),
	NUMBER(warpSize, WARP_SIZE),
	SIZE(memPitch, MAX_PITCH),
	NUMBER(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK),
	NUMBER(maxThreadsDim[0], MAX_BLOCK_DIM_X),
	NUMBER(maxThreadsDim[1], MAX_BLOCK_DIM_Y),
	NUMBER(maxThreadsDim[2], MAX_BLOCK_DIM_Z),
	NUMBER(maxGridSize[0], MAX_GRID_DIM_X),
	NUMBER(maxGridSize[1], MAX_GRID_DIM_Y),
	NUMBER(maxGridSize[2], MAX_GRID_DIM_Z),
	SIZE(totalConstMem, TOTAL_CONSTANT_MEMORY),
	NUMBER(major, COMPUTE_CAPABILITY_MAJOR),
	NUMBER(minor, COMPUTE_CAPABILITY_MINOR),
	SIZE(textureAlignment, TEXTURE_ALIGNMENT),
	SIZE(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT),
	NUMBER(multiProcessorCount, MULTIPROCESSOR_COUNT),
	NUMBER(canMapHostMemory, CAN_MAP_HOST_MEMORY),
	SIZE(surfaceAlignment, SURFACE_ALIGNMENT),
	NUMBER(concurrentKernels, CONCURRENT_KERNELS),
	NUMBER(pciBusID, PCI_BUS_ID),
	NUMBER(asyncEngineCount, ASYNC_ENGINE_COUNT),
	NUMBER(unifiedAddressing, UNIFIED_ADDRESSING),
	NUMBER(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH),
	NUMBER(l2CacheSize, L2_CACHE_SIZE),
	NUMBER(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR),
	NUMBER(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED),
	SIZE(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
	NUMBER(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR),
	NUMBER(managedMemory, MANAGED_MEMORY),
	NUMBER(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS),
	SIZE(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
	NUMBER(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR),
	SIZE(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK),
	NUMBER(hostRegisterSupported, HOST_REGISTER_SUPPORTED),
	NUMBER(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED),
};

static CUresult read_property(struct cudaDeviceProp *prop, const struct property *property,
			      int device)
{
	int value = 0;
	size_t wide;
	CUresult result = rt_driver()->cuDeviceGetAttribute(&value, property->attribute, device);

	wide = (size_t)value;
	memcpy((char *)prop + property->offset,
	       property->wide ? (const void *)&wide : (const void *)&value,
	       property->wide ? sizeof(wide) : sizeof(value));
	return result;
}

cudaError_t rt_cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	CUuuid uuid;
	CUresult result;

	if (!prop)
		return cudaErrorInvalidValue;
	memset(prop, 0, sizeof(*prop));
	result = rt_driver()->cuDeviceGetName(prop->name, sizeof(prop->name), device);
	if (result == CUDA_SUCCESS)
		result = rt_driver()->cuDeviceGetUuid(&uuid, device);
	if (result == CUDA_SUCCESS)
		result = rt_driver()->cuDeviceTotalMem_v2(&prop->totalGlobalMem, device);
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		if (result == CUDA_SUCCESS)
			result = read_property(prop, &properties[i], device);
	}
	if (result == CUDA_SUCCESS)
		memcpy(&prop->uuid, &uuid, sizeof(uuid));
	return rt_error(result);
}

cudaError_t rt_cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
	return rt_error(rt_driver()->cuDeviceGetPCIBusId(pciBusId, len, device));
}

cudaError_t rt_cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
	return rt_error(rt_driver()->cuDeviceGetByPCIBusId(device, pciBusId));
}

cudaError_t rt_cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
	return rt_error(rt_driver()->cuCtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t rt_cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
	return rt_error(rt_driver()->cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t rt_cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
	return rt_error(rt_driver()->cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig));
}

cudaError_t rt_cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
	return rt_error(rt_driver()->cuCtxSetCacheConfig((CUfunc_cache)cacheConfig));
}

cudaError_t rt_cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
	return rt_error(rt_driver()->cuCtxGetSharedMemConfig((CUsharedconfig *)pConfig));
}

cudaError_t rt_cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
	return rt_error(rt_driver()->cuCtxSetSharedMemConfig((CUsharedconfig)config));
}

cudaError_t rt_cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
	return rt_error(rt_driver()->cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t rt_cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
	return rt_error(rt_driver()->cuDeviceCanAccessPeer(canAccessPeer, device, peerDevice));
}

cudaError_t rt_cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
					 int dstDevice)
{
	return rt_error(rt_driver()->cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr,
							     srcDevice, dstDevice));
}

cudaError_t rt_cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
	CUcontext peer;
	cudaError_t error = rt_primary_context(peerDevice, &peer);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t rt_cudaDeviceDisablePeerAccess(int peerDevice)
{
	CUcontext peer;
	cudaError_t error = rt_primary_context(peerDevice, &peer);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuCtxDisablePeerAccess(peer));
}

cudaError_t rt_cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
	return rt_error(rt_driver()->cuDeviceGetDefaultMemPool(memPool, device));
}

cudaError_t rt_cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
	return rt_error(rt_driver()->cuDeviceGetMemPool(memPool, device));
}

cudaError_t rt_cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
	return rt_error(rt_driver()->cuDeviceSetMemPool(device, memPool));
}

cudaError_t rt_cudaDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return cudaErrorInvalidValue;
	*driverVersion = rt_driver_version();
	return cudaSuccess;
}

cudaError_t rt_cudaRuntimeGetVersion(int *runtimeVersion)
{
	if (!runtimeVersion)
		return cudaErrorInvalidValue;
	*runtimeVersion = CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t rt_cudaGetDriverEntryPointByVersion(const char *symbol, void **funcPtr,
						unsigned int cudaVersion, unsigned long long flags,
						enum cudaDriverEntryPointQueryResult *driverStatus)
{
	CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	CUresult result;

	if (flags == cudaEnableDefault && rt_thread_self()->per_thread)
		flags = cudaEnablePerThreadDefaultStream;
	result = rt_driver()->cuGetProcAddress_v2(symbol, funcPtr, (int)cudaVersion, flags,
						  &status);
	if (result == CUDA_SUCCESS && driverStatus)
		*driverStatus = (enum cudaDriverEntryPointQueryResult)status;
	return rt_error(result);
}

cudaError_t rt_cudaGetDriverEntryPoint(const char *symbol, void **funcPtr, unsigned long long flags,
				       enum cudaDriverEntryPointQueryResult *driverStatus)
{
	return rt_cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags,
						   driverStatus);
}

/* Nobody profiles. */
cudaError_t rt_cudaProfilerStart(void)
{
	return cudaSuccess;
}

cudaError_t rt_cudaProfilerStop(void)
{
	return cudaSuccess;
}
