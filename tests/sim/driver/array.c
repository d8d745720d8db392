/* SPDX-License-Identifier: MIT */
#include "array.h"

#include "context.h"

enum { MAX_LEVELS = 16 };

/* A chain of ever smaller arrays in one allocation. */
struct sim_mipmap {
	struct sim_object object;
	struct sim_mem *mem;
	unsigned levels;
	struct sim_array *level[MAX_LEVELS];
};

static size_t channel_bytes(CUarray_format format)
{
	switch ((int)format) {
	case CU_AD_FORMAT_UNSIGNED_INT8:
	case CU_AD_FORMAT_SIGNED_INT8:
		return 1;
	case CU_AD_FORMAT_UNSIGNED_INT16:
	case CU_AD_FORMAT_SIGNED_INT16:
	case CU_AD_FORMAT_HALF:
		return 2;
	case CU_AD_FORMAT_UNSIGNED_INT32:
	case CU_AD_FORMAT_SIGNED_INT32:
	case CU_AD_FORMAT_FLOAT:
		return 4;
	default:
		return 0;
	}
}

static size_t at_least_one(size_t number)
{
	return number ? number : 1;
}

size_t sim_array_pitch(const struct sim_array *array)
{
	return array->shape.Width * array->shape.NumChannels * channel_bytes(array->shape.Format);
}

size_t sim_array_slice(const struct sim_array *array)
{
	return sim_array_pitch(array) * at_least_one(array->shape.Height);
}

size_t sim_array_bytes(const struct sim_array *array)
{
	return sim_array_slice(array) * at_least_one(array->shape.Depth);
}

struct sim_array *sim_array_of(CUarray handle)
{
	return sim_object_is(handle, SIM_ARRAY) ? (struct sim_array *)(void *)handle : NULL;
}

/* In each direction; so the bytes of an array are a number. */
#define EXTENT_MAX (1u << 17)

static bool is_shape(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	return shape && shape->Width && shape->Width <= EXTENT_MAX && shape->Height <= EXTENT_MAX &&
	       shape->Depth <= EXTENT_MAX && channel_bytes(shape->Format) &&
	       (shape->NumChannels == 1 || shape->NumChannels == 2 || shape->NumChannels == 4) &&
	       !(shape->Depth && !shape->Height && !(shape->Flags & CUDA_ARRAY3D_LAYERED));
}

static struct sim_array *create_array(const CUDA_ARRAY3D_DESCRIPTOR *shape)
{
	struct sim_array *array = sim_object_create(SIM_ARRAY, sizeof(*array));

	if (array)
		array->shape = *shape;
	return array;
}

static void dispose_array(struct sim_mem *mem)
{
	sim_object_destroy(mem->extra);
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
	struct sim_array *array;

	if (!pHandle || !is_shape(pAllocateArray))
		return CUDA_ERROR_INVALID_VALUE;
	array = create_array(pAllocateArray);
	if (!array)
		return CUDA_ERROR_OUT_OF_MEMORY;
	array->mem = sim_mem_alloc(sim_ctx_current(), SIM_MEM_ARRAY, sim_array_bytes(array));
	if (!array->mem) {
		sim_object_destroy(array);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	array->mem->extra = array;
	array->mem->dispose = dispose_array;
	array->base = array->mem->base;
	*pHandle = (CUarray)(void *)array;
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;

	if (!pAllocateArray)
		return CUDA_ERROR_INVALID_VALUE;
	shape = (CUDA_ARRAY3D_DESCRIPTOR){
		.Width = pAllocateArray->Width,
		.Height = pAllocateArray->Height,
		.Format = pAllocateArray->Format,
		.NumChannels = pAllocateArray->NumChannels,
	};
	return sim_cuArray3DCreate_v2(pHandle, &shape);
}

CUresult sim_cuArrayDestroy(CUarray hArray)
{
	struct sim_array *array = sim_array_of(hArray);

	if (array && array->mem)
		sim_device_synchronize(array->mem->device);
	/* Another thread may have been quicker. */
	array = sim_array_of(hArray);
	if (!array || !array->mem)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_mem_free(array->mem);
	return CUDA_SUCCESS;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	const struct sim_array *array = sim_array_of(hArray);

	if (!array)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pArrayDescriptor)
		return CUDA_ERROR_INVALID_VALUE;
	*pArrayDescriptor = array->shape;
	return CUDA_SUCCESS;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
	CUDA_ARRAY3D_DESCRIPTOR shape;
	CUresult result = sim_cuArray3DGetDescriptor_v2(&shape, hArray);

	if (result != CUDA_SUCCESS || !pArrayDescriptor)
		return result == CUDA_SUCCESS ? CUDA_ERROR_INVALID_VALUE : result;
	*pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){
		.Width = shape.Width,
		.Height = shape.Height,
		.Format = shape.Format,
		.NumChannels = shape.NumChannels,
	};
	return CUDA_SUCCESS;
}

static void destroy_mipmap(struct sim_mipmap *mipmap)
{
	for (unsigned i = 0; i < mipmap->levels; i++)
		sim_object_destroy(mipmap->level[i]);
	sim_object_destroy(mipmap);
}

static void dispose_mipmap(struct sim_mem *mem)
{
	destroy_mipmap(mem->extra);
}

static size_t halve(size_t number)
{
	return number > 1 ? number / 2 : number;
}

/* Makes the levels, each in its place in the memory that is still to come; the bytes of all. */
static bool create_levels(struct sim_mipmap *mipmap, CUDA_ARRAY3D_DESCRIPTOR shape, unsigned levels,
			  uint64_t *ret_bytes)
{
	*ret_bytes = 0;
	while (mipmap->levels < levels) {
		struct sim_array *array = create_array(&shape);

		if (!array)
			return false;
		array->base = *ret_bytes;
		*ret_bytes += sim_array_bytes(array);
		mipmap->level[mipmap->levels++] = array;
		shape.Width = halve(shape.Width);
		shape.Height = halve(shape.Height);
		shape.Depth = halve(shape.Depth);
	}
	return true;
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
				    const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
				    unsigned int numMipmapLevels)
{
	struct sim_mipmap *mipmap;
	uint64_t bytes;

	if (!pHandle || !is_shape(pMipmappedArrayDesc) || !numMipmapLevels)
		return CUDA_ERROR_INVALID_VALUE;
	mipmap = sim_object_create(SIM_MIPMAP, sizeof(*mipmap));
	if (!mipmap)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (numMipmapLevels > MAX_LEVELS)
		numMipmapLevels = MAX_LEVELS;
	if (create_levels(mipmap, *pMipmappedArrayDesc, numMipmapLevels, &bytes))
		mipmap->mem = sim_mem_alloc(sim_ctx_current(), SIM_MEM_ARRAY, bytes);
	if (!mipmap->mem) {
		destroy_mipmap(mipmap);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	for (unsigned i = 0; i < mipmap->levels; i++)
		mipmap->level[i]->base += mipmap->mem->base;
	mipmap->mem->extra = mipmap;
	mipmap->mem->dispose = dispose_mipmap;
	*pHandle = (CUmipmappedArray)(void *)mipmap;
	return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
	struct sim_mipmap *mipmap = (struct sim_mipmap *)(void *)hMipmappedArray;

	if (sim_object_is(hMipmappedArray, SIM_MIPMAP))
		sim_device_synchronize(mipmap->mem->device);
	if (!sim_object_is(hMipmappedArray, SIM_MIPMAP))
		return CUDA_ERROR_INVALID_HANDLE;
	sim_mem_free(mipmap->mem);
	return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
				      unsigned int level)
{
	struct sim_mipmap *mipmap = (struct sim_mipmap *)(void *)hMipmappedArray;

	if (!sim_object_is(hMipmappedArray, SIM_MIPMAP))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!pLevelArray || level >= mipmap->levels)
		return CUDA_ERROR_INVALID_VALUE;
	*pLevelArray = (CUarray)(void *)mipmap->level[level];
	return CUDA_SUCCESS;
}
