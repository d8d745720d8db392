/* SPDX-License-Identifier: MIT */
/* Memory of the simulated runtime: each function is one of the driver, or a few. */
#include <string.h>

#include "runtime.h"

static CUdeviceptr address(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

/* Hands an address out only when there is one. */
static cudaError_t give(void **ret_pointer, CUresult result, const CUdeviceptr *addr)
{
	if (result == CUDA_SUCCESS)
		*ret_pointer = (void *)(uintptr_t)*addr;
	return rt_error(result);
}

/* Nothing of no size: a NULL pointer, which can be freed. */
cudaError_t rt_cudaMalloc(void **devPtr, size_t size)
{
	CUdeviceptr addr = 0;

	if (!devPtr)
		return cudaErrorInvalidValue;
	return give(devPtr, size ? rt_driver()->cuMemAlloc_v2(&addr, size) : CUDA_SUCCESS, &addr);
}

cudaError_t rt_cudaFree(void *devPtr)
{
	return devPtr ? rt_error(rt_driver()->cuMemFree_v2(address(devPtr))) : cudaSuccess;
}

cudaError_t rt_cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
	if (!pHost)
		return cudaErrorInvalidValue;
	if (size)
		return rt_error(rt_driver()->cuMemHostAlloc(pHost, size, flags));
	*pHost = NULL;
	return cudaSuccess;
}

cudaError_t rt_cudaMallocHost(void **ptr, size_t size)
{
	return rt_cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t rt_cudaFreeHost(void *ptr)
{
	return ptr ? rt_error(rt_driver()->cuMemFreeHost(ptr)) : cudaSuccess;
}

cudaError_t rt_cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
	return rt_error(rt_driver()->cuMemHostRegister_v2(ptr, size, flags));
}

cudaError_t rt_cudaHostUnregister(void *ptr)
{
	return rt_error(rt_driver()->cuMemHostUnregister(ptr));
}

cudaError_t rt_cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
	CUdeviceptr addr = 0;

	if (!pDevice)
		return cudaErrorInvalidValue;
	return give(pDevice, rt_driver()->cuMemHostGetDevicePointer_v2(&addr, pHost, flags), &addr);
}

cudaError_t rt_cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
	return rt_error(rt_driver()->cuMemHostGetFlags(pFlags, pHost));
}

cudaError_t rt_cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
	CUdeviceptr addr = 0;

	if (!devPtr)
		return cudaErrorInvalidValue;
	return give(devPtr, rt_driver()->cuMemAllocManaged(&addr, size, flags), &addr);
}

cudaError_t rt_cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
	CUdeviceptr addr = 0;

	if (!devPtr || !pitch)
		return cudaErrorInvalidValue;
	if (width && height)
		return give(devPtr, rt_driver()->cuMemAllocPitch_v2(&addr, pitch, width, height, 4),
			    &addr);
	*devPtr = NULL;
	*pitch = 0;
	return cudaSuccess;
}

cudaError_t rt_cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
	cudaError_t error;

	if (!pitchedDevPtr)
		return cudaErrorInvalidValue;
	error = rt_cudaMallocPitch(&pitchedDevPtr->ptr, &pitchedDevPtr->pitch, extent.width,
				   extent.height * extent.depth);
	if (error == cudaSuccess) {
		pitchedDevPtr->xsize = extent.width;
		pitchedDevPtr->ysize = extent.height;
	}
	return error;
}

cudaError_t rt_cudaMemGetInfo(size_t *free, size_t *total)
{
	return rt_error(rt_driver()->cuMemGetInfo_v2(free, total));
}

cudaError_t rt_cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	CUpointer_attribute asked[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	unsigned type = 0;
	bool managed = false;
	int device = cudaInvalidDeviceId;
	CUdeviceptr device_pointer = 0;
	void *host_pointer = NULL;
	void *data[] = {&type, &managed, &device, &device_pointer, &host_pointer};
	CUresult result;

	if (!attributes)
		return cudaErrorInvalidValue;
	result = rt_driver()->cuPointerGetAttributes(5, asked, data, address(ptr));
	if (result != CUDA_SUCCESS)
		return rt_error(result);
	memset(attributes, 0, sizeof(*attributes));
	attributes->type = managed                        ? cudaMemoryTypeManaged
			   : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
			   : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
							  : cudaMemoryTypeUnregistered;
	attributes->device = device;
	attributes->devicePointer = (void *)(uintptr_t)device_pointer;
	attributes->hostPointer = attributes->type == cudaMemoryTypeUnregistered
					  ? (void *)(uintptr_t)ptr
					  : host_pointer;
	return cudaSuccess;
}

/* Stream-ordered memory. */

cudaError_t rt_cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
	CUdeviceptr addr = 0;

	if (!devPtr)
		return cudaErrorInvalidValue;
	return give(devPtr,
		    size ? rt_driver()->cuMemAllocAsync(&addr, size, hStream) : CUDA_SUCCESS,
		    &addr);
}

cudaError_t rt_cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
				       cudaStream_t stream)
{
	CUdeviceptr addr = 0;

	if (!ptr)
		return cudaErrorInvalidValue;
	return give(ptr, rt_driver()->cuMemAllocFromPoolAsync(&addr, size, memPool, stream), &addr);
}

cudaError_t rt_cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
	return devPtr ? rt_error(rt_driver()->cuMemFreeAsync(address(devPtr), hStream))
		      : cudaSuccess;
}

cudaError_t rt_cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
	/* The structures of both interfaces are laid out alike. */
	return rt_error(rt_driver()->cuMemPoolCreate(
		memPool, (const CUmemPoolProps *)(const void *)poolProps));
}

cudaError_t rt_cudaMemPoolDestroy(cudaMemPool_t memPool)
{
	return rt_error(rt_driver()->cuMemPoolDestroy(memPool));
}

cudaError_t rt_cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
	return rt_error(rt_driver()->cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t rt_cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
				       void *value)
{
	return rt_error(
		rt_driver()->cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t rt_cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr,
				       void *value)
{
	return rt_error(
		rt_driver()->cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t rt_cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
				    size_t count)
{
	return rt_error(rt_driver()->cuMemPoolSetAccess(
		memPool, (const CUmemAccessDesc *)(const void *)descList, count));
}

cudaError_t rt_cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
				    struct cudaMemLocation *location)
{
	return rt_error(rt_driver()->cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool,
							(CUmemLocation *)(void *)location));
}

/* Managed memory. */

static CUmemLocation location_of(struct cudaMemLocation location)
{
	return (CUmemLocation){.type = (CUmemLocationType)location.type, .id = location.id};
}

cudaError_t rt_cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
			     struct cudaMemLocation location)
{
	return rt_error(rt_driver()->cuMemAdvise_v2(address(devPtr), count, (CUmem_advise)advice,
						    location_of(location)));
}

cudaError_t rt_cudaMemPrefetchAsync(const void *devPtr, size_t count,
				    struct cudaMemLocation location, unsigned int flags,
				    cudaStream_t stream)
{
	return rt_error(rt_driver()->cuMemPrefetchAsync_v2(address(devPtr), count,
							   location_of(location), flags, stream));
}

/* Other processes. */

cudaError_t rt_cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
	return rt_error(
		rt_driver()->cuIpcGetMemHandle((CUipcMemHandle *)(void *)handle, address(devPtr)));
}

cudaError_t rt_cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
	CUdeviceptr addr = 0;
	CUipcMemHandle copy;

	if (!devPtr)
		return cudaErrorInvalidValue;
	memcpy(&copy, &handle, sizeof(copy));
	return give(devPtr, rt_driver()->cuIpcOpenMemHandle_v2(&addr, copy, flags), &addr);
}

cudaError_t rt_cudaIpcCloseMemHandle(void *devPtr)
{
	return rt_error(rt_driver()->cuIpcCloseMemHandle(address(devPtr)));
}

cudaError_t rt_cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
	return rt_error(
		rt_driver()->cuIpcGetEventHandle((CUipcEventHandle *)(void *)handle, event));
}

cudaError_t rt_cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
	CUipcEventHandle copy;

	memcpy(&copy, &handle, sizeof(copy));
	return rt_error(rt_driver()->cuIpcOpenEventHandle(event, copy));
}
