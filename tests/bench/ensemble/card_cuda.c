/* SPDX-License-Identifier: MIT */
/*
 * The driver's functions that PyTorch's rules call, over the card of card.h.
 */
#include <cuda.h>

#include "card.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT CUresult cuMemAlloc(CUdeviceptr *dptr, size_t bytesize)
{
	uint64_t addr;
	int err = card_alloc(bytesize, &addr);

	if (!err)
		*dptr = addr;
	return (CUresult)err;
}

EXPORT CUresult cuMemFree(CUdeviceptr dptr)
{
	card_free(dptr);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo(size_t *free, size_t *total)
{
	uint64_t room, all;
	int err = card_ops()->mem_info(1, &room, &all);

	*free = room;
	*total = all;
	return (CUresult)err;
}

EXPORT CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
				    CUdeviceptr addr, unsigned long long flags)
{
	uint64_t at;
	int err = card_ops()->range_reserve(size, &at);

	(void)alignment;
	(void)addr;
	(void)flags;
	if (!err)
		*ptr = at;
	return (CUresult)err;
}

EXPORT CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	return (CUresult)card_ops()->range_free(ptr, size);
}

EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			    const CUmemAllocationProp *prop, unsigned long long flags)
{
	uint64_t page;
	int err = card_ops()->page_create(prop->location.id, size, &page);

	(void)flags;
	if (!err)
		*handle = page;
	return (CUresult)err;
}

EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	return (CUresult)card_ops()->page_release(handle);
}

EXPORT CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			 CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	(void)offset;
	(void)flags;
	return (CUresult)card_ops()->page_map(ptr, size, handle);
}

EXPORT CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	return (CUresult)card_ops()->page_unmap(ptr, size);
}

EXPORT CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
			       size_t count)
{
	(void)count;
	return (CUresult)card_ops()->range_open(desc->location.id, ptr, size);
}
