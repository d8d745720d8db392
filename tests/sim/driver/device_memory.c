/* SPDX-License-Identifier: MIT */
/* cuMemAlloc and what belongs to it. */
#include "context.h"
#include "memory.h"

enum { PITCH_BYTES = 512 };

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
	struct sim_mem *mem;

	if (!dptr || !bytesize)
		return CUDA_ERROR_INVALID_VALUE;
	mem = sim_mem_alloc(sim_ctx_current(), SIM_MEM_DEVICE, bytesize);
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*dptr = mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
				size_t Height, unsigned int ElementSizeBytes)
{
	size_t pitch = (WidthInBytes + PITCH_BYTES - 1) & ~(size_t)(PITCH_BYTES - 1);
	size_t bytes;
	CUresult result;

	if (!pPitch || pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &bytes) ||
	    (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_cuMemAlloc_v2(dptr, bytes);
	if (result == CUDA_SUCCESS)
		*pPitch = pitch;
	return result;
}

/* What cuMemFree takes: it may have been allocated in any context. */
static struct sim_mem *find_freeable(CUdeviceptr dptr)
{
	struct sim_mem *mem = sim_mem_find_base(dptr);

	if (!mem || mem->going)
		return NULL;
	return mem->kind == SIM_MEM_DEVICE || mem->kind == SIM_MEM_ASYNC ||
			       mem->kind == SIM_MEM_MANAGED
		       ? mem
		       : NULL;
}

CUresult sim_cuMemFree_v2(CUdeviceptr dptr)
{
	struct sim_mem *mem = find_freeable(dptr);
	CUresult result;

	if (!mem)
		return CUDA_ERROR_INVALID_VALUE;
	sim_device_synchronize(mem->device);
	/* What it has waited for may have failed. */
	result = sim_ctx_check(sim_thread_self());
	if (result != CUDA_SUCCESS)
		return result;
	/* Another thread may have freed it, or its context, while this one waited. */
	mem = find_freeable(dptr);
	if (!mem)
		return CUDA_ERROR_INVALID_VALUE;
	sim_mem_free(mem);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total)
{
	const struct sim_vram *vram = &sim_ctx_current()->device->vram;

	if (free)
		*free = sim_vram_left(vram);
	if (total)
		*total = vram->limit;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
	const struct sim_mem *mem = sim_mem_find(dptr);

	if (!mem)
		return CUDA_ERROR_NOT_FOUND;
	if (pbase)
		*pbase = mem->base;
	if (psize)
		*psize = mem->bytes;
	return CUDA_SUCCESS;
}
