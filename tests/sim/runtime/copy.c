/* SPDX-License-Identifier: MIT */
/* Copies and fills. */
#include "registry.h"
#include "runtime.h"

static CUdeviceptr address(const void *pointer)
{
	return (CUdeviceptr)(uintptr_t)pointer;
}

cudaError_t rt_cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
	const struct rt_driver *driver = rt_driver();

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_error(driver->cuMemcpyHtoD_v2(address(dst), src, count));
	case cudaMemcpyDeviceToHost:
		return rt_error(driver->cuMemcpyDtoH_v2(dst, address(src), count));
	case cudaMemcpyDeviceToDevice:
		return rt_error(driver->cuMemcpyDtoD_v2(address(dst), address(src), count));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_error(driver->cuMemcpy(address(dst), address(src), count));
	}
	return cudaErrorInvalidMemcpyDirection;
}

cudaError_t rt_cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			       cudaStream_t stream)
{
	const struct rt_driver *driver = rt_driver();

	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_error(driver->cuMemcpyHtoDAsync_v2(address(dst), src, count, stream));
	case cudaMemcpyDeviceToHost:
		return rt_error(driver->cuMemcpyDtoHAsync_v2(dst, address(src), count, stream));
	case cudaMemcpyDeviceToDevice:
		return rt_error(
			driver->cuMemcpyDtoDAsync_v2(address(dst), address(src), count, stream));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_error(driver->cuMemcpyAsync(address(dst), address(src), count, stream));
	}
	return cudaErrorInvalidMemcpyDirection;
}

static cudaError_t find_peers(int dst, int src, CUcontext *ret_dst, CUcontext *ret_src)
{
	cudaError_t error = rt_primary_context(dst, ret_dst);

	return error == cudaSuccess ? rt_primary_context(src, ret_src) : error;
}

cudaError_t rt_cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice,
			      size_t count)
{
	CUcontext to;
	CUcontext from;
	cudaError_t error = find_peers(dstDevice, srcDevice, &to, &from);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuMemcpyPeer(address(dst), to, address(src), from, count));
}

cudaError_t rt_cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
				   size_t count, cudaStream_t stream)
{
	CUcontext to;
	CUcontext from;
	cudaError_t error = find_peers(dstDevice, srcDevice, &to, &from);

	if (error != cudaSuccess)
		return error;
	return rt_error(rt_driver()->cuMemcpyPeerAsync(address(dst), to, address(src), from, count,
						       stream));
}

/* Boxes: all of them are the driver's three-dimensional copy between places of any kind. */

static CUDA_MEMCPY3D plane(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			   size_t width, size_t height)
{
	return (CUDA_MEMCPY3D){
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = address(src),
		.srcPitch = src_pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = address(dst),
		.dstPitch = dst_pitch,
		.WidthInBytes = width,
		.Height = height,
		.Depth = 1,
	};
}

cudaError_t rt_cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
			    size_t height, enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D box = plane(dst, dpitch, src, spitch, width, height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	if (width > dpitch || width > spitch)
		return cudaErrorInvalidPitchValue;
	return rt_error(rt_driver()->cuMemcpy3D_v2(&box));
}

cudaError_t rt_cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
				 size_t width, size_t height, enum cudaMemcpyKind kind,
				 cudaStream_t stream)
{
	const CUDA_MEMCPY3D box = plane(dst, dpitch, src, spitch, width, height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	if (width > dpitch || width > spitch)
		return cudaErrorInvalidPitchValue;
	return rt_error(rt_driver()->cuMemcpy3DAsync_v2(&box, stream));
}

static CUDA_MEMCPY3D plane_to_array(cudaArray_t dst, size_t x, size_t y, const void *src,
				    size_t pitch, size_t width, size_t height)
{
	CUDA_MEMCPY3D box = plane(NULL, 0, src, pitch, width, height);

	box.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	box.dstArray = (CUarray)(void *)dst;
	box.dstXInBytes = x;
	box.dstY = y;
	return box;
}

static CUDA_MEMCPY3D plane_from_array(void *dst, size_t pitch, cudaArray_const_t src, size_t x,
				      size_t y, size_t width, size_t height)
{
	CUDA_MEMCPY3D box = plane(dst, pitch, NULL, 0, width, height);

	box.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	box.srcArray = (CUarray)(uintptr_t)src;
	box.srcXInBytes = x;
	box.srcY = y;
	return box;
}

cudaError_t rt_cudaMemcpy2DToArray(cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src,
				   size_t spitch, size_t width, size_t height,
				   enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D box = plane_to_array(dst, wOffset, hOffset, src, spitch, width, height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	return rt_error(rt_driver()->cuMemcpy3D_v2(&box));
}

cudaError_t rt_cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t wOffset, size_t hOffset,
					const void *src, size_t spitch, size_t width, size_t height,
					enum cudaMemcpyKind kind, cudaStream_t stream)
{
	const CUDA_MEMCPY3D box = plane_to_array(dst, wOffset, hOffset, src, spitch, width, height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	return rt_error(rt_driver()->cuMemcpy3DAsync_v2(&box, stream));
}

cudaError_t rt_cudaMemcpy2DFromArray(void *dst, size_t dpitch, cudaArray_const_t src,
				     size_t wOffset, size_t hOffset, size_t width, size_t height,
				     enum cudaMemcpyKind kind)
{
	const CUDA_MEMCPY3D box = plane_from_array(dst, dpitch, src, wOffset, hOffset, width,
						   height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	return rt_error(rt_driver()->cuMemcpy3D_v2(&box));
}

cudaError_t rt_cudaMemcpy2DFromArrayAsync(void *dst, size_t dpitch, cudaArray_const_t src,
					  size_t wOffset, size_t hOffset, size_t width,
					  size_t height, enum cudaMemcpyKind kind,
					  cudaStream_t stream)
{
	const CUDA_MEMCPY3D box = plane_from_array(dst, dpitch, src, wOffset, hOffset, width,
						   height);

	if ((unsigned)kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	return rt_error(rt_driver()->cuMemcpy3DAsync_v2(&box, stream));
}

/* In a copy with an array, widths and offsets are in its elements; else they are bytes. */
static size_t element_bytes(cudaArray_t array)
{
	struct cudaChannelFormatDesc desc;

	if (!array || rt_cudaArrayGetInfo(&desc, NULL, NULL, array) != cudaSuccess)
		return 1;
	return (size_t)(desc.x + desc.y + desc.z + desc.w) / 8;
}

static bool box_of(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *ret_box)
{
	size_t element = element_bytes(p->srcArray ? p->srcArray : p->dstArray);

	if ((p->srcArray != NULL) == (p->srcPtr.ptr != NULL) ||
	    (p->dstArray != NULL) == (p->dstPtr.ptr != NULL))
		return false;
	*ret_box = (CUDA_MEMCPY3D){
		.srcXInBytes = p->srcPos.x * element_bytes(p->srcArray),
		.srcY = p->srcPos.y,
		.srcZ = p->srcPos.z,
		.srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
		.srcArray = (CUarray)(void *)p->srcArray,
		.srcDevice = address(p->srcPtr.ptr),
		.srcPitch = p->srcPtr.pitch,
		.srcHeight = p->srcPtr.ysize,
		.dstXInBytes = p->dstPos.x * element_bytes(p->dstArray),
		.dstY = p->dstPos.y,
		.dstZ = p->dstPos.z,
		.dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : CU_MEMORYTYPE_UNIFIED,
		.dstArray = (CUarray)(void *)p->dstArray,
		.dstDevice = address(p->dstPtr.ptr),
		.dstPitch = p->dstPtr.pitch,
		.dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width * element,
		.Height = p->extent.height,
		.Depth = p->extent.depth,
	};
	return true;
}

cudaError_t rt_cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
	CUDA_MEMCPY3D box;

	if (!p || !box_of(p, &box))
		return cudaErrorInvalidValue;
	return rt_error(rt_driver()->cuMemcpy3D_v2(&box));
}

cudaError_t rt_cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
	CUDA_MEMCPY3D box;

	if (!p || !box_of(p, &box))
		return cudaErrorInvalidValue;
	return rt_error(rt_driver()->cuMemcpy3DAsync_v2(&box, stream));
}

/* Variables of modules. */

cudaError_t rt_cudaGetSymbolAddress(void **devPtr, const void *symbol)
{
	CUdeviceptr addr;
	size_t bytes;
	cudaError_t error = rt_registry_find_variable(symbol, &addr, &bytes);

	if (!devPtr)
		return cudaErrorInvalidValue;
	if (error == cudaSuccess)
		*devPtr = (void *)(uintptr_t)addr;
	return error;
}

cudaError_t rt_cudaGetSymbolSize(size_t *size, const void *symbol)
{
	CUdeviceptr addr;

	return size ? rt_registry_find_variable(symbol, &addr, size) : cudaErrorInvalidValue;
}

/* The address of a part of a variable. */
static cudaError_t find_part(const void *symbol, size_t offset, size_t count, void **ret)
{
	CUdeviceptr addr;
	size_t bytes;
	cudaError_t error = rt_registry_find_variable(symbol, &addr, &bytes);

	if (error == cudaSuccess && (offset > bytes || count > bytes - offset))
		error = cudaErrorInvalidValue;
	if (error == cudaSuccess)
		*ret = (void *)(uintptr_t)(addr + offset);
	return error;
}

cudaError_t rt_cudaMemcpyToSymbol(const void *symbol, const void *src, size_t count, size_t offset,
				  enum cudaMemcpyKind kind)
{
	void *dst;
	cudaError_t error = find_part(symbol, offset, count, &dst);

	return error == cudaSuccess ? rt_cudaMemcpy(dst, src, count, kind) : error;
}

cudaError_t rt_cudaMemcpyToSymbolAsync(const void *symbol, const void *src, size_t count,
				       size_t offset, enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *dst;
	cudaError_t error = find_part(symbol, offset, count, &dst);

	return error == cudaSuccess ? rt_cudaMemcpyAsync(dst, src, count, kind, stream) : error;
}

cudaError_t rt_cudaMemcpyFromSymbol(void *dst, const void *symbol, size_t count, size_t offset,
				    enum cudaMemcpyKind kind)
{
	void *src;
	cudaError_t error = find_part(symbol, offset, count, &src);

	return error == cudaSuccess ? rt_cudaMemcpy(dst, src, count, kind) : error;
}

cudaError_t rt_cudaMemcpyFromSymbolAsync(void *dst, const void *symbol, size_t count, size_t offset,
					 enum cudaMemcpyKind kind, cudaStream_t stream)
{
	void *src;
	cudaError_t error = find_part(symbol, offset, count, &src);

	return error == cudaSuccess ? rt_cudaMemcpyAsync(dst, src, count, kind, stream) : error;
}

/* Fills. */

cudaError_t rt_cudaMemset(void *devPtr, int value, size_t count)
{
	return rt_error(rt_driver()->cuMemsetD8_v2(address(devPtr), (unsigned char)value, count));
}

cudaError_t rt_cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
	return rt_error(
		rt_driver()->cuMemsetD8Async(address(devPtr), (unsigned char)value, count, stream));
}

cudaError_t rt_cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
	return rt_error(rt_driver()->cuMemsetD2D8_v2(address(devPtr), pitch, (unsigned char)value,
						     width, height));
}

cudaError_t rt_cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
				 cudaStream_t stream)
{
	return rt_error(rt_driver()->cuMemsetD2D8Async(address(devPtr), pitch, (unsigned char)value,
						       width, height, stream));
}

cudaError_t rt_cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
				 struct cudaExtent extent, cudaStream_t stream)
{
	cudaError_t error = cudaSuccess;

	for (size_t z = 0; z < extent.depth && error == cudaSuccess; z++) {
		char *slice = (char *)pitchedDevPtr.ptr +
			      z * pitchedDevPtr.pitch * pitchedDevPtr.ysize;

		error = rt_cudaMemset2DAsync(slice, pitchedDevPtr.pitch, value, extent.width,
					     extent.height, stream);
	}
	return error;
}

cudaError_t rt_cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value,
			    struct cudaExtent extent)
{
	return rt_cudaMemset3DAsync(pitchedDevPtr, value, extent, NULL);
}
