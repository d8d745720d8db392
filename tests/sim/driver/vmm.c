/* SPDX-License-Identifier: MIT */
#include "vmm.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device.h"
#include "plan.h"
#include "shared.h"

static bool is_granular(uint64_t number)
{
	return number && number % SIM_GRANULARITY == 0;
}

const struct sim_mem *sim_vmm_range_of(const struct sim_mem *mapped)
{
	const struct sim_mapping *mapping = mapped->extra;

	return mapping->range;
}

bool sim_vmm_is_open(const struct sim_mem *mapped, bool write)
{
	const struct sim_mapping *mapping = mapped->extra;

	return (write ? mapping->writable : mapping->readable) != 0;
}

bool sim_vmm_is_open_to(const struct sim_mem *mapped, CUdevice device, bool write)
{
	const struct sim_mapping *mapping = mapped->extra;

	return (write ? mapping->writable : mapping->readable) >> device & 1;
}

uint64_t sim_vmm_handle_types(const struct sim_mem *mem)
{
	const struct sim_mapping *mapping = mem->kind == SIM_MEM_MAPPED ? mem->extra : NULL;

	return mapping ? (uint64_t)mapping->physical->prop.requestedHandleTypes : 0;
}

struct sim_abilities sim_vmm_can(const struct sim_mem *mem)
{
	const struct sim_mapping *mapping = mem->kind == SIM_MEM_MAPPED ? mem->extra : NULL;
	struct sim_abilities none = {0};

	return mapping ? (struct sim_abilities){mapping->physical->prop.allocFlags
							.gpuDirectRDMACapable,
						mapping->physical->prop.allocFlags.usage}
		       : none;
}

/* Addresses. */

CUresult sim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
				 unsigned long long flags)
{
	struct sim_mem *mem;
	uint64_t base;
	char *map;

	if (!ptr || flags || !is_granular(size) || (alignment & (alignment - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	if (alignment < SIM_GRANULARITY)
		alignment = SIM_GRANULARITY;
	map = mmap((void *)(uintptr_t)addr, size + alignment, PROT_NONE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED)
		return CUDA_ERROR_OUT_OF_MEMORY;
	base = ((uint64_t)(uintptr_t)map + alignment - 1) & ~(uint64_t)(alignment - 1);
	if (base > (uint64_t)(uintptr_t)map)
		munmap(map, base - (uint64_t)(uintptr_t)map);
	munmap((void *)(uintptr_t)(base + size), (uint64_t)(uintptr_t)map + alignment - base);
	mem = sim_mem_add(NULL, SIM_MEM_RESERVED, base, size);
	if (!mem) {
		munmap((void *)(uintptr_t)base, size);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ptr = base;
	return CUDA_SUCCESS;
}

/* The reserved range that holds all of these addresses, or NULL. */
static struct sim_mem *find_range(CUdeviceptr ptr, size_t size)
{
	struct sim_mem *mem = sim_mem_find(ptr);

	if (mem && mem->kind == SIM_MEM_MAPPED)
		mem = ((struct sim_mapping *)mem->extra)->range;
	if (!mem || mem->kind != SIM_MEM_RESERVED || size > mem->bytes - (ptr - mem->base))
		return NULL;
	return mem;
}

/* The first mapping in the addresses, or NULL. */
static struct sim_mem *find_mapping(CUdeviceptr ptr, size_t size)
{
	for (uint64_t at = ptr; at < ptr + size; at += SIM_GRANULARITY) {
		struct sim_mem *mem = sim_mem_find(at);

		if (mem && mem->kind == SIM_MEM_MAPPED)
			return mem;
	}
	return NULL;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
	struct sim_mem *range = find_range(ptr, size);

	if (!range || range->base != ptr || range->bytes != size || find_mapping(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	sim_mem_free(range);
	munmap((void *)(uintptr_t)ptr, size);
	return CUDA_SUCCESS;
}

/* Memory. */

static struct sim_physical *physical_of(CUmemGenericAllocationHandle handle)
{
	void *object = (void *)(uintptr_t)handle;

	return sim_object_is(object, SIM_PHYSICAL) ? object : NULL;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
	const unsigned types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

	if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE || prop->win32HandleMetaData)
		return CUDA_ERROR_INVALID_VALUE;
	if ((unsigned)prop->requestedHandleTypes & ~types)
		return CUDA_ERROR_NOT_SUPPORTED;
	if ((prop->allocFlags.gpuDirectRDMACapable || prop->allocFlags.usage) &&
	    !sim_plan.abilities)
		return CUDA_ERROR_NOT_SUPPORTED;
	return sim_device_get(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					   CUmemAllocationGranularity_flags option)
{
	CUresult result = check_prop(prop);

	if (!granularity || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
			     option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	if (result == CUDA_SUCCESS)
		*granularity = SIM_GRANULARITY;
	return result;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			 const CUmemAllocationProp *prop, unsigned long long flags)
{
	CUresult result = check_prop(prop);
	struct sim_physical *physical;

	if (!handle || flags || !is_granular(size))
		return CUDA_ERROR_INVALID_VALUE;
	if (result != CUDA_SUCCESS)
		return result;
	physical = sim_object_create(SIM_PHYSICAL, sizeof(*physical));
	if (!physical)
		return CUDA_ERROR_OUT_OF_MEMORY;
	physical->device = sim_device_get(prop->location.id);
	physical->offset = sim_vram_take(&physical->device->vram, size);
	if (physical->offset == UINT64_MAX) {
		sim_object_destroy(physical);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->prop = *prop;
	physical->bytes = size;
	physical->fd = -1;
	physical->handles = 1;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}

static void drop_if_unused(struct sim_physical *physical)
{
	if (physical->handles || physical->mappings)
		return;
	if (physical->fd >= 0)
		close(physical->fd);
	else
		sim_vram_give(&physical->device->vram, physical->offset, physical->bytes);
	sim_object_destroy(physical);
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct sim_physical *physical = physical_of(handle);

	if (!physical || !physical->handles)
		return CUDA_ERROR_INVALID_VALUE;
	physical->handles--;
	drop_if_unused(physical);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
	struct sim_mem *mem = sim_mem_find((uint64_t)(uintptr_t)addr);
	struct sim_physical *physical;

	if (!handle || !mem || mem->kind != SIM_MEM_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	physical = ((struct sim_mapping *)mem->extra)->physical;
	physical->handles++;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						    CUmemGenericAllocationHandle handle)
{
	const struct sim_physical *physical = physical_of(handle);

	if (!prop || !physical)
		return CUDA_ERROR_INVALID_VALUE;
	*prop = physical->prop;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle,
					  CUmemGenericAllocationHandle handle,
					  CUmemAllocationHandleType handleType,
					  unsigned long long flags)
{
	const struct sim_physical *physical = physical_of(handle);
	struct sim_shared shared;
	int fd;

	if (!shareableHandle || !physical || flags ||
	    handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !((unsigned)physical->prop.requestedHandleTypes & (unsigned)handleType))
		return CUDA_ERROR_INVALID_VALUE;
	sim_shared_describe(&shared, physical->device, physical->offset, physical->bytes);
	fd = sim_shared_write(&shared);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	*(int *)shareableHandle = fd;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
					    CUmemAllocationHandleType shHandleType)
{
	struct sim_physical *physical;
	struct sim_shared shared;
	int fd;

	if (!handle || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    sim_shared_read((int)(uintptr_t)osHandle, &shared) || !sim_device_get(shared.device))
		return CUDA_ERROR_INVALID_VALUE;
	fd = sim_shared_open(&shared);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	physical = sim_object_create(SIM_PHYSICAL, sizeof(*physical));
	if (!physical) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	physical->device = sim_device_get(shared.device);
	physical->prop = (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = shared.device},
	};
	physical->bytes = shared.bytes;
	physical->offset = shared.offset;
	physical->fd = fd;
	physical->handles = 1;
	*handle = (CUmemGenericAllocationHandle)(uintptr_t)physical;
	return CUDA_SUCCESS;
}

/* Mappings. */

static void unmap(struct sim_mem *mem)
{
	struct sim_mapping *mapping = mem->extra;

	mapping->physical->mappings--;
	drop_if_unused(mapping->physical);
	free(mapping);
}

static bool put_pages(const struct sim_physical *physical, CUdeviceptr ptr, size_t size)
{
	int fd = physical->fd >= 0 ? physical->fd : physical->device->vram.fd;
	void *at = (void *)(uintptr_t)ptr;

	return mmap(at, size, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, fd,
		    (off_t)physical->offset) == at;
}

static bool take_pages(CUdeviceptr ptr, size_t size)
{
	void *at = (void *)(uintptr_t)ptr;

	return mmap(at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
		    -1, 0) == at;
}

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
		      CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct sim_physical *physical = physical_of(handle);
	struct sim_mem *range = find_range(ptr, size);
	struct sim_mapping *mapping;
	struct sim_mem *mem;

	if (!physical || !range || !is_granular(size) || ptr % SIM_GRANULARITY || offset || flags ||
	    size > physical->bytes || find_mapping(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	mapping = calloc(1, sizeof(*mapping));
	mem = mapping ? sim_mem_add(NULL, SIM_MEM_MAPPED, ptr, size) : NULL;
	if (!mem || !put_pages(physical, ptr, size)) {
		if (mem)
			sim_mem_free(mem);
		free(mapping);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	mapping->range = range;
	mapping->physical = physical;
	physical->mappings++;
	mem->device = physical->device;
	mem->extra = mapping;
	mem->dispose = unmap;
	return CUDA_SUCCESS;
}

/* Whether the range is covered by whole mappings, without holes. */
static bool is_mapped(CUdeviceptr ptr, size_t size)
{
	uint64_t at = ptr;

	while (at < ptr + size) {
		const struct sim_mem *mem = sim_mem_find_base(at);

		if (!mem || mem->kind != SIM_MEM_MAPPED || mem->bytes > ptr + size - at)
			return false;
		at += mem->bytes;
	}
	return size != 0;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
	if (!is_mapped(ptr, size) || !take_pages(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = ptr; at < ptr + size;) {
		struct sim_mem *mem = sim_mem_find_base(at);

		at += mem->bytes;
		sim_mem_free(mem);
	}
	return CUDA_SUCCESS;
}

static CUresult check_access(const CUmemAccessDesc *desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		     desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		     desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE))
			return CUDA_ERROR_INVALID_VALUE;
		if (!sim_device_get(desc[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	}
	return CUDA_SUCCESS;
}

static void set_access(struct sim_mem *mem, const CUmemAccessDesc *desc)
{
	struct sim_mapping *mapping = mem->extra;
	unsigned device = 1u << desc->location.id;

	mapping->readable &= ~device;
	mapping->writable &= ~device;
	if (desc->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
		mapping->readable |= device;
	if (desc->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
		mapping->writable |= device;
}

/* The simulator itself works by host addresses: pages are open when any device may touch them. */
static bool open_pages(const struct sim_mem *mem)
{
	const struct sim_mapping *mapping = mem->extra;
	int access = PROT_NONE;

	if (mapping->readable)
		access |= PROT_READ;
	if (mapping->writable)
		access |= PROT_WRITE;
	return mprotect((void *)(uintptr_t)mem->base, mem->bytes, access) == 0;
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CUresult result;

	if (!desc || !count || !is_mapped(ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	result = check_access(desc, count);
	if (result != CUDA_SUCCESS)
		return result;
	for (uint64_t at = ptr; at < ptr + size;) {
		struct sim_mem *mem = sim_mem_find_base(at);

		for (size_t i = 0; i < count; i++)
			set_access(mem, &desc[i]);
		if (!open_pages(mem))
			return CUDA_ERROR_OUT_OF_MEMORY;
		at += mem->bytes;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			    CUdeviceptr ptr)
{
	const struct sim_mem *mem = sim_mem_find(ptr);
	const struct sim_mapping *mapping;
	unsigned device;

	if (!flags || !location || !mem || mem->kind != SIM_MEM_MAPPED ||
	    location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(location->id))
		return CUDA_ERROR_INVALID_DEVICE;
	mapping = mem->extra;
	device = 1u << location->id;
	*flags = mapping->writable & device   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : mapping->readable & device ? CU_MEM_ACCESS_FLAGS_PROT_READ
					      : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
