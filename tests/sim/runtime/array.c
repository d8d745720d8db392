/* SPDX-License-Identifier: MIT */
/* Arrays. The runtime's handles are the driver's. */
#include "runtime.h"

static bool describe(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
		     unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *ret)
{
	const int bits[] = {desc->x, desc->y, desc->z, desc->w};
	static const CUarray_format formats[3][3] = {
		{CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32},
		{CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16,
		 CU_AD_FORMAT_UNSIGNED_INT32},
		{CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_HALF, CU_AD_FORMAT_FLOAT},
	};
	unsigned channels = 0;

	while (channels < 4 && bits[channels])
		channels++;
	if (!channels || (unsigned)desc->f > cudaChannelFormatKindFloat ||
	    (bits[0] != 8 && bits[0] != 16 && bits[0] != 32))
		return false;
	*ret = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = extent.width,
		.Height = extent.height,
		.Depth = extent.depth,
		.Format = formats[desc->f][bits[0] / 16],
		.NumChannels = channels,
		.Flags = flags,
	};
	return true;
}

cudaError_t rt_cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
				 struct cudaExtent extent, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;

	if (!array || !desc || !describe(desc, extent, flags, &shape))
		return cudaErrorInvalidValue;
	return rt_error(rt_driver()->cuArray3DCreate_v2((CUarray *)(void *)array, &shape));
}

cudaError_t rt_cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
			       size_t width, size_t height, unsigned int flags)
{
	const struct cudaExtent extent = {.width = width, .height = height};

	return rt_cudaMalloc3DArray(array, desc, extent, flags);
}

cudaError_t rt_cudaFreeArray(cudaArray_t array)
{
	return array ? rt_error(rt_driver()->cuArrayDestroy((CUarray)(void *)array)) : cudaSuccess;
}

cudaError_t rt_cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
					const struct cudaChannelFormatDesc *desc,
					struct cudaExtent extent, unsigned int numLevels,
					unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;

	if (!mipmappedArray || !desc || !describe(desc, extent, flags, &shape))
		return cudaErrorInvalidValue;
	return rt_error(rt_driver()->cuMipmappedArrayCreate(
		(CUmipmappedArray *)(void *)mipmappedArray, &shape, numLevels));
}

cudaError_t rt_cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
	if (!mipmappedArray)
		return cudaSuccess;
	return rt_error(
		rt_driver()->cuMipmappedArrayDestroy((CUmipmappedArray)(void *)mipmappedArray));
}

cudaError_t rt_cudaGetMipmappedArrayLevel(cudaArray_t *levelArray,
					  cudaMipmappedArray_const_t mipmappedArray,
					  unsigned int level)
{
	return rt_error(rt_driver()->cuMipmappedArrayGetLevel(
		(CUarray *)(void *)levelArray, (CUmipmappedArray)(uintptr_t)mipmappedArray, level));
}

static struct cudaChannelFormatDesc channels_of(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	const bool isfloat = shape->Format == CU_AD_FORMAT_FLOAT ||
			     shape->Format == CU_AD_FORMAT_HALF;
	const bool issigned = shape->Format >= CU_AD_FORMAT_SIGNED_INT8 && !isfloat;
	int bits = 32;

	if (shape->Format == CU_AD_FORMAT_UNSIGNED_INT8 ||
	    shape->Format == CU_AD_FORMAT_SIGNED_INT8)
		bits = 8;
	else if (shape->Format == CU_AD_FORMAT_UNSIGNED_INT16 ||
		 shape->Format == CU_AD_FORMAT_SIGNED_INT16 || shape->Format == CU_AD_FORMAT_HALF)
		bits = 16;
	return (struct cudaChannelFormatDesc){
		.x = bits,
		.y = shape->NumChannels > 1 ? bits : 0,
		.z = shape->NumChannels > 2 ? bits : 0,
		.w = shape->NumChannels > 3 ? bits : 0,
		.f = isfloat    ? cudaChannelFormatKindFloat
		     : issigned ? cudaChannelFormatKindSigned
				: cudaChannelFormatKindUnsigned,
	};
}

cudaError_t rt_cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
				unsigned int *flags, cudaArray_t array)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;
	CUresult result = rt_driver()->cuArray3DGetDescriptor_v2(&shape, (CUarray)(void *)array);

	if (result != CUDA_SUCCESS)
		return rt_error(result);
	if (desc)
		*desc = channels_of(&shape);
	if (extent)
		*extent = (struct cudaExtent){shape.Width, shape.Height, shape.Depth};
	if (flags)
		*flags = shape.Flags;
	return cudaSuccess;
}

cudaError_t rt_cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
	if (!desc)
		return cudaErrorInvalidValue;
	return rt_cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(uintptr_t)array);
}
