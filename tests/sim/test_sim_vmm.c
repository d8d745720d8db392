/* SPDX-License-Identifier: MIT */
/* Virtual memory management of the simulated driver. */
#include "sim_test.h"

#define GRAIN (2 * MIB)

static const CUmemAllocationProp ON_DEVICE = {
	.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
};

static CUdeviceptr reserve(size_t bytes)
{
	CUdeviceptr addr = 0;

	assert_ok(cuMemAddressReserve(&addr, bytes, 0, 0, 0));
	assert_int_equal(addr % GRAIN, 0);
	return addr;
}

static CUmemGenericAllocationHandle create(size_t bytes)
{
	CUmemGenericAllocationHandle handle = 0;

	assert_ok(cuMemCreate(&handle, bytes, &ON_DEVICE, 0));
	return handle;
}

static CUresult grant_to(CUdevice device, CUdeviceptr addr, size_t bytes, CUmemAccess_flags flags)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};

	return cuMemSetAccess(addr, bytes, &access, 1);
}

static CUresult grant(CUdeviceptr addr, size_t bytes, CUmemAccess_flags flags)
{
	return grant_to(0, addr, bytes, flags);
}

with_context(everything_comes_in_whole_grains)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr addr;
	size_t grain;

	assert_ok(cuMemGetAllocationGranularity(&grain, &ON_DEVICE,
						CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	assert_int_equal(grain, GRAIN);
	assert_error(cuMemCreate(&handle, GRAIN + 4096, &ON_DEVICE, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemCreate(&handle, 0, &ON_DEVICE, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAddressReserve(&addr, 4096, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAddressReserve(&addr, GRAIN, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
	addr = reserve(2 * GRAIN);
	handle = create(GRAIN);
	assert_error(cuMemMap(addr + 4096, GRAIN, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemMap(addr, GRAIN, GRAIN, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemMap(addr, 2 * GRAIN, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemMap(addr + 2 * GRAIN, GRAIN, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemRelease(handle));
	assert_ok(cuMemAddressFree(addr, 2 * GRAIN));
}

with_context(addresses_cost_nothing_and_memory_counts)
{
	uint64_t before = cudasim_used_bytes(0);
	CUdeviceptr addr = reserve(8 * GIB);
	CUmemGenericAllocationHandle handle;

	assert_int_equal(cudasim_used_bytes(0), before);
	handle = create(4 * GRAIN);
	assert_int_equal(cudasim_used_bytes(0), before + 4 * GRAIN);
	assert_error(cuMemCreate(&handle, GIB, &ON_DEVICE, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_ok(cuMemRelease(handle));
	assert_int_equal(cudasim_used_bytes(0), before);
	assert_ok(cuMemAddressFree(addr, 8 * GIB));
}

with_context(a_place_is_mapped_once)
{
	CUdeviceptr addr = reserve(4 * GRAIN);
	CUmemGenericAllocationHandle handle = create(2 * GRAIN);

	assert_ok(cuMemMap(addr + GRAIN, 2 * GRAIN, 0, handle, 0));
	assert_error(cuMemMap(addr, 2 * GRAIN, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemMap(addr + 2 * GRAIN, GRAIN, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemMap(addr + 3 * GRAIN, GRAIN, 0, handle, 0));
	assert_error(cuMemUnmap(addr + GRAIN, GRAIN), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemUnmap(addr, 4 * GRAIN), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAddressFree(addr, 4 * GRAIN), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemUnmap(addr + GRAIN, 3 * GRAIN));
	assert_ok(cuMemRelease(handle));
	assert_error(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAddressFree(addr, GRAIN), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemAddressFree(addr, 4 * GRAIN));
}

with_context(memory_lives_as_long_as_anybody_has_it)
{
	uint64_t before = cudasim_used_bytes(0);
	CUdeviceptr addr = reserve(GRAIN);
	CUmemGenericAllocationHandle handle = create(GRAIN);

	assert_ok(cuMemMap(addr, GRAIN, 0, handle, 0));
	assert_ok(cuMemRelease(handle));
	assert_int_equal(cudasim_used_bytes(0), before + GRAIN);
	assert_ok(cuMemRetainAllocationHandle(&handle, (void *)(addr + 5)));
	assert_ok(cuMemUnmap(addr, GRAIN));
	assert_int_equal(cudasim_used_bytes(0), before + GRAIN);
	assert_ok(cuMemRelease(handle));
	assert_int_equal(cudasim_used_bytes(0), before);
	assert_ok(cuMemAddressFree(addr, GRAIN));
}

with_context(access_is_given_to_whole_mappings)
{
	CUdeviceptr addr = reserve(4 * GRAIN);
	CUmemGenericAllocationHandle first = create(2 * GRAIN);
	CUmemGenericAllocationHandle second = create(GRAIN);
	unsigned long long flags;

	assert_ok(cuMemMap(addr, 2 * GRAIN, 0, first, 0));
	assert_ok(cuMemMap(addr + 2 * GRAIN, GRAIN, 0, second, 0));
	assert_ok(cuMemGetAccess(&flags, &ON_DEVICE.location, addr));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
	assert_error(grant(addr, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
		     CUDA_ERROR_INVALID_VALUE);
	assert_error(grant(addr, 4 * GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
		     CUDA_ERROR_INVALID_VALUE);
	assert_ok(grant(addr, 3 * GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_ok(cuMemGetAccess(&flags, &ON_DEVICE.location, addr + 2 * GRAIN));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	/* A new mapping begins without. */
	assert_ok(cuMemUnmap(addr + 2 * GRAIN, GRAIN));
	assert_ok(cuMemMap(addr + 2 * GRAIN, GRAIN, 0, second, 0));
	assert_ok(cuMemGetAccess(&flags, &ON_DEVICE.location, addr + 2 * GRAIN));
	assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

with_context(work_crosses_neighbours_but_not_holes)
{
	CUdeviceptr addr = reserve(3 * GRAIN);
	CUmemGenericAllocationHandle first = create(GRAIN);
	CUmemGenericAllocationHandle second = create(GRAIN);
	uint32_t word = 0;

	assert_error(cuMemsetD32(addr, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemMap(addr, GRAIN, 0, first, 0));
	assert_ok(cuMemMap(addr + GRAIN, GRAIN, 0, second, 0));
	assert_error(cuMemsetD32(addr, 1, 1), CUDA_ERROR_INVALID_VALUE);
	assert_ok(grant(addr, 2 * GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_ok(cuMemsetD32(addr + GRAIN - 4, 6, 2));
	assert_ok(cuMemcpyDtoH(&word, addr + GRAIN, 4));
	assert_int_equal(word, 6);
	assert_error(cuMemsetD32(addr + 2 * GRAIN - 4, 6, 2), CUDA_ERROR_INVALID_VALUE);
	/* The same memory at another address. */
	assert_ok(cuMemMap(addr + 2 * GRAIN, GRAIN, 0, second, 0));
	assert_ok(grant(addr + 2 * GRAIN, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READ));
	assert_ok(cuMemcpyDtoH(&word, addr + 2 * GRAIN, 4));
	assert_int_equal(word, 6);
}

with_context(unmapping_under_work_is_an_error_of_the_program)
{
	CUfunction kernel = load_kernel("cudasim-module\nkernel k\n params ptr\n time 50us\n"
					" writes p0 4\nend\n",
					"k");
	CUdeviceptr addr = reserve(GRAIN);
	CUmemGenericAllocationHandle handle = create(GRAIN);
	void *params[] = {&addr};

	assert_ok(cuMemMap(addr, GRAIN, 0, handle, 0));
	assert_ok(grant(addr, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	launch(kernel, NULL, params);
	assert_ok(cuMemUnmap(addr, GRAIN));
	assert_error(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* Peer access is to what cuMemAlloc gives; every page has access of its own. */
with_context(a_device_reaches_the_pages_that_are_open_to_it)
{
	CUdeviceptr addr = reserve(2 * GRAIN), across = addr + GRAIN - 4;
	CUmemGenericAllocationHandle first = create(GRAIN), second = create(GRAIN);
	void *params[] = {&across};
	CUfunction kernel;
	CUcontext owner, other;

	assert_ok(cuCtxGetCurrent(&owner));
	assert_ok(cuMemMap(addr, GRAIN, 0, first, 0));
	assert_ok(cuMemMap(addr + GRAIN, GRAIN, 0, second, 0));
	assert_ok(grant(addr, 2 * GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_ok(grant_to(1, addr, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_ok(grant_to(1, addr + GRAIN, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	assert_ok(cuCtxCreate(&other, NULL, 0, 1));
	assert_ok(cuCtxEnablePeerAccess(owner, 0));
	kernel = load_kernel("cudasim-module\nkernel k\n params ptr\n writes p0 8\nend\n", "k");
	launch(kernel, NULL, params);
	assert_ok(cuCtxSynchronize());
	assert_ok(grant_to(1, addr + GRAIN, GRAIN, CU_MEM_ACCESS_FLAGS_PROT_READ));
	launch(kernel, NULL, params);
	assert_error(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_ok(cuCtxDestroy(other));
	assert_ok(cuCtxSetCurrent(owner));
}

with_context(a_mapping_and_its_range_are_told_apart)
{
	CUdeviceptr addr = reserve(4 * GRAIN);
	CUmemGenericAllocationHandle handle = create(GRAIN);
	CUdeviceptr base;
	size_t bytes;
	uint64_t range;

	assert_ok(cuMemMap(addr + GRAIN, GRAIN, 0, handle, 0));
	assert_ok(cuMemGetAddressRange(&base, &bytes, addr + GRAIN + 7));
	assert_int_equal(base, addr + GRAIN);
	assert_int_equal(bytes, GRAIN);
	assert_ok(cuPointerGetAttribute(&range, CU_POINTER_ATTRIBUTE_RANGE_SIZE, addr + GRAIN));
	assert_int_equal(range, 4 * GRAIN);
	assert_error(cuMemFree(addr + GRAIN), CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	setenv("CUDASIM", "memory:512M,devices:2", 1);
	return cm_run_tests(NULL, NULL);
}
