/* SPDX-License-Identifier: MIT */
/* Pinned, registered and managed memory. Its addresses are the same on host and device. */
#include <sys/mman.h>

#include "context.h"
#include "memory.h"
#include "stream.h"

enum {
	HOST_ALLOC_FLAGS = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
			   CU_MEMHOSTALLOC_WRITECOMBINED,
	HOST_REGISTER_FLAGS = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
			      CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY,
};

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
	struct sim_mem *mem;

	if (!pp || !bytesize || (Flags & ~(unsigned)HOST_ALLOC_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	mem = sim_mem_map(sim_ctx_current(), SIM_MEM_HOST, bytesize);
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mem->flags = Flags;
	*pp = (void *)(uintptr_t)mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
	return sim_cuMemHostAlloc(pp, bytesize, 0);
}

/*
 * Memory of a kind that begins there, once the device does nothing any more; NULL when there is
 * none, or another thread took it away meanwhile.
 */
static struct sim_mem *find_idle(const void *p, enum sim_mem_kind kind)
{
	struct sim_mem *mem = sim_mem_find_base((uint64_t)(uintptr_t)p);

	if (!mem || mem->kind != kind)
		return NULL;
	sim_device_synchronize(mem->device);
	mem = sim_mem_find_base((uint64_t)(uintptr_t)p);
	return mem && mem->kind == kind ? mem : NULL;
}

CUresult sim_cuMemFreeHost(void *p)
{
	struct sim_mem *mem = find_idle(p, SIM_MEM_HOST);

	if (!mem)
		return CUDA_ERROR_INVALID_VALUE;
	sim_mem_free(mem);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
	uint64_t first = (uint64_t)(uintptr_t)p;
	struct sim_mem *mem;

	if (!p || !bytesize || (Flags & ~(unsigned)HOST_REGISTER_FLAGS))
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_mem_overlaps(first, bytesize))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	mem = sim_mem_add(sim_ctx_current(), SIM_MEM_REGISTERED, first, bytesize);
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mem->flags = Flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
	return sim_cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult sim_cuMemHostUnregister(void *p)
{
	struct sim_mem *mem = find_idle(p, SIM_MEM_REGISTERED);

	if (!mem)
		return p ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
	sim_mem_free(mem);
	return CUDA_SUCCESS;
}

static struct sim_mem *find_host(const void *p)
{
	struct sim_mem *mem = sim_mem_find((uint64_t)(uintptr_t)p);

	return mem && (mem->kind == SIM_MEM_HOST || mem->kind == SIM_MEM_REGISTERED) ? mem : NULL;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
	if (!pdptr || Flags || !find_host(p))
		return CUDA_ERROR_INVALID_VALUE;
	*pdptr = (CUdeviceptr)(uintptr_t)p;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
	const struct sim_mem *mem = find_host(p);

	if (!pFlags || !mem || mem->kind != SIM_MEM_HOST)
		return CUDA_ERROR_INVALID_VALUE;
	*pFlags = mem->flags;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
	struct sim_mem *mem;

	if (!dptr || !bytesize || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	mem = sim_mem_map(sim_ctx_current(), SIM_MEM_MANAGED, bytesize);
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	mem->flags = flags;
	*dptr = mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
				    unsigned int flags)
{
	const struct sim_mem *mem = sim_mem_find(dptr);

	(void)hStream;
	(void)length;
	(void)flags;
	return mem && mem->kind == SIM_MEM_MANAGED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_managed(CUdeviceptr addr, size_t count)
{
	const struct sim_mem *mem = sim_mem_find(addr);

	return count && mem && mem->kind == SIM_MEM_MANAGED && sim_mem_is_live(addr, count, false)
		       ? CUDA_SUCCESS
		       : CUDA_ERROR_INVALID_VALUE;
}

/* Where a page lies does not show here: advice and prefetches are checked, and taken. */

CUresult sim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
			    CUmemLocation location)
{
	(void)advice;
	(void)location;
	return check_managed(devPtr, count);
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
	(void)advice;
	(void)device;
	return check_managed(devPtr, count);
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice,
				CUstream hStream)
{
	CUresult error;

	if (dstDevice != CU_DEVICE_CPU && !sim_device_get(dstDevice))
		return CUDA_ERROR_INVALID_DEVICE;
	return sim_stream_of(hStream, &error) ? check_managed(devPtr, count) : error;
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
				   unsigned int flags, CUstream hStream)
{
	CUdevice device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id
								       : CU_DEVICE_CPU;

	return flags ? CUDA_ERROR_INVALID_VALUE
		     : sim_cuMemPrefetchAsync(devPtr, count, device, hStream);
}
