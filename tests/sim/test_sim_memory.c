/* SPDX-License-Identifier: MIT */
/* Device, pitched, pinned, managed and stream-ordered memory of the simulated driver. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>

#include "sim_test.h"

static sigjmp_buf fault;

static void on_fault(int number)
{
	(void)number;
	siglongjmp(fault, 1);
}

/* True when reading the byte kills. */
static bool faults(CUdeviceptr addr)
{
	const struct sigaction action = {.sa_handler = on_fault};
	struct sigaction segv;
	struct sigaction bus;
	volatile bool died = true;

	sigaction(SIGSEGV, &action, &segv);
	sigaction(SIGBUS, &action, &bus);
	if (!sigsetjmp(fault, 1)) {
		(void)*(volatile char *)addr;
		died = false;
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
	return died;
}

with_context(impossible_requests_are_refused)
{
	CUdeviceptr addr = 42;

	assert_error(cuMemAlloc(&addr, 0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAlloc(NULL, 1), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemAlloc(&addr, 3 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
	assert_error(cuMemAlloc(&addr, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(addr, 42);
}

with_context(only_live_bases_can_be_freed)
{
	CUdeviceptr addr;
	CUdeviceptr large;

	assert_ok(cuMemAlloc(&addr, 1000));
	assert_ok(cuMemAlloc(&large, 3 * MIB));
	assert_error(cuMemFree(0), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemFree(addr + 512), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemFree(large + 2 * MIB), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemFree((CUdeviceptr)state), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemFree(addr));
	assert_error(cuMemFree(addr), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemFree(large));
	assert_error(cuMemFree(large), CUDA_ERROR_INVALID_VALUE);
}

with_context(small_requests_share_chunks_and_large_ones_do_not)
{
	CUdeviceptr first;
	CUdeviceptr second;
	CUdeviceptr large;
	uint64_t before = cudasim_used_bytes(0);

	assert_ok(cuMemAlloc(&first, 1));
	assert_ok(cuMemAlloc(&second, 513));
	assert_int_equal(second, first + 512);
	assert_int_equal(cudasim_used_bytes(0) - before, 2 * MIB);
	assert_ok(cuMemAlloc(&large, MIB));
	assert_int_equal(large % (2 * MIB), 0);
	assert_int_equal(cudasim_used_bytes(0) - before, 4 * MIB);
	assert_ok(cuMemFree(first));
	assert_ok(cuMemFree(second));
	assert_ok(cuMemFree(large));
	assert_int_equal(cudasim_used_bytes(0), before);
}

with_context(the_whole_card_can_be_had_in_any_order)
{
	CUdeviceptr chunks[1024];
	CUdeviceptr all;
	size_t left;
	size_t total;

	for (unsigned i = 0; i < 1024; i++)
		assert_ok(cuMemAlloc(&chunks[i], 2 * MIB));
	assert_error(cuMemAlloc(&all, 1), CUDA_ERROR_OUT_OF_MEMORY);
	for (unsigned i = 0; i < 1024; i += 2)
		assert_ok(cuMemFree(chunks[i]));
	/* Pages need not lie side by side: half the card is half the card. */
	assert_ok(cuMemAlloc(&all, GIB));
	assert_ok(cuMemGetInfo(&left, &total));
	assert_int_equal(left, 0);
	assert_int_equal(total, 2 * GIB);
}

with_context(freed_memory_is_gone)
{
	CUdeviceptr large;
	CUdeviceptr small;
	CUdeviceptr neighbour;

	assert_ok(cuMemAlloc(&large, 2 * MIB));
	assert_ok(cuMemAlloc(&small, 4));
	assert_ok(cuMemAlloc(&neighbour, 4));
	assert_false(faults(large));
	*(char *)small = 7;
	assert_ok(cuMemFree(large));
	assert_true(faults(large));
	assert_ok(cuMemFree(small));
	assert_int_not_equal(*(char *)small, 7);
	assert_error(cuMemsetD8(small, 0, 1), CUDA_ERROR_INVALID_VALUE);
}

with_context(an_address_leads_to_its_allocation)
{
	CUdeviceptr addr;
	CUdeviceptr base = 0;
	unsigned long long first;
	unsigned long long second;
	size_t bytes = 0;

	assert_ok(cuMemAlloc(&addr, 5 * MIB));
	assert_ok(cuMemGetAddressRange(&base, &bytes, addr + 5 * MIB - 1));
	assert_int_equal(base, addr);
	assert_int_equal(bytes, 5 * MIB);
	assert_ok(cuMemGetAddressRange(NULL, NULL, addr));
	assert_ok(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, addr + 9));
	assert_ok(cuMemFree(addr));
	assert_error(cuMemGetAddressRange(&base, &bytes, addr), CUDA_ERROR_NOT_FOUND);
	assert_ok(cuMemAlloc(&addr, 5 * MIB));
	assert_ok(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, addr));
	assert_int_not_equal(first, second);
}

with_context(a_context_takes_its_memory_with_it)
{
	CUcontext other;
	CUdeviceptr addr;
	uint64_t before = cudasim_live_allocations(0);

	assert_ok(cuCtxCreate(&other, NULL, 0, 0));
	assert_ok(cuMemAlloc(&addr, MIB));
	assert_ok(cuMemAlloc(&addr, 10));
	assert_ok(cuCtxDestroy(other));
	assert_int_equal(cudasim_live_allocations(0), before);
	assert_error(cuMemFree(addr), CUDA_ERROR_INVALID_VALUE);
}

with_context(pinned_memory_is_known_by_kind_and_flags)
{
	char pageable[16];
	unsigned type = 0;
	unsigned flags = 0;
	CUdeviceptr device;
	void *host;

	assert_error(cuMemHostAlloc(&host, 16, 64), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemHostAlloc(&host, 100000, CU_MEMHOSTALLOC_PORTABLE));
	memset(host, 1, 100000);
	assert_ok(cuMemHostGetFlags(&flags, host));
	assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE);
	assert_ok(cuMemHostGetDevicePointer(&device, (char *)host + 50, 0));
	assert_int_equal(device, (CUdeviceptr)host + 50);
	assert_ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	assert_error(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					   (CUdeviceptr)pageable),
		     CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemFree((CUdeviceptr)host), CUDA_ERROR_INVALID_VALUE);
	assert_error(cuMemFreeHost((char *)host + 8), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuMemFreeHost(host));
	assert_error(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

with_context(registering_is_exact)
{
	char *pages = malloc(8192);

	assert_non_null(pages);
	assert_ok(cuMemHostRegister(pages, 4096, 0));
	assert_error(cuMemHostRegister(pages + 100, 10, 0),
		     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_error(cuMemHostRegister(pages - 100, 200, 0),
		     CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_error(cuMemHostUnregister(pages + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_ok(cuMemHostUnregister(pages));
	assert_error(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	free(pages);
}

with_context(arrays_hold_what_is_copied_into_them)
{
	const CUDA_ARRAY_DESCRIPTOR shape = {
		.Width = 4, .Height = 3, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
	const CUDA_ARRAY_DESCRIPTOR endless = {
		.Width = SIZE_MAX / 4 + 1, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
	uint32_t in[3][4];
	uint32_t out[3][4] = {{0}};
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = sizeof(in[0]),
		.dstMemoryType = CU_MEMORYTYPE_ARRAY,
		.WidthInBytes = sizeof(in[0]),
		.Height = 3,
	};
	CUarray array;
	uint64_t before = cudasim_live_allocations(0);

	for (unsigned i = 0; i < 12; i++)
		in[i / 4][i % 4] = i;
	assert_ok(cuArrayCreate(&array, &shape));
	copy.dstArray = array;
	assert_ok(cuMemcpy2D(&copy));
	copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	copy.srcArray = array;
	copy.dstMemoryType = CU_MEMORYTYPE_HOST;
	copy.dstHost = out;
	copy.dstPitch = sizeof(out[0]);
	assert_ok(cuMemcpy2D(&copy));
	assert_memory_equal(in, out, sizeof(in));
	assert_ok(cuArrayDestroy(array));
	assert_error(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
	/* So many bytes that their number is 0 again. */
	assert_error(cuArrayCreate(&array, &endless), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cudasim_live_allocations(0), before);
}

with_context(stream_ordered_memory_goes_when_its_turn_comes)
{
	CUfunction kernel = load_kernel("cudasim-module\nkernel k\n time 50us\nend\n", "k");
	CUdeviceptr addr;
	CUstream stream;
	uint64_t before = cudasim_live_allocations(0);

	assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_ok(cuMemAllocAsync(&addr, MIB, stream));
	launch(kernel, stream, NULL);
	assert_ok(cuMemFreeAsync(addr, stream));
	assert_error(cuMemFreeAsync(addr, stream), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cudasim_live_allocations(0), before + 1);
	assert_ok(cuStreamSynchronize(stream));
	assert_int_equal(cudasim_live_allocations(0), before);
	assert_ok(cuMemAllocAsync(&addr, MIB, stream));
	assert_ok(cuMemFree(addr));
	assert_int_equal(cudasim_live_allocations(0), before);
}

static void must_hold(const char *made_by, CUdeviceptr addr, uint64_t bytes, int error)
{
	struct cudasim_holding holding[8];
	unsigned n = cudasim_holdings(holding, 8), i;

	for (i = 0; i < n && i < 8; i++)
		if (!strcmp(holding[i].made_by, made_by) && holding[i].addr == addr) {
			assert_int_equal(holding[i].bytes, bytes);
			assert_int_equal(holding[i].count, 1);
			assert_int_equal(holding[i].error, error);
			return;
		}
	fail_msg("nothing of %s at %#llx is held", made_by, (unsigned long long)addr);
}

with_context(what_is_held_is_told)
{
	const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
					  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
	const unsigned before = cudasim_holdings(NULL, 0);
	CUmemGenericAllocationHandle page;
	CUdeviceptr first, second;
	void *host;

	assert_ok(cuMemAlloc(&first, 3 * MIB));
	assert_ok(cuMemAlloc(&second, 100));
	assert_ok(cuMemAllocHost(&host, MIB));
	assert_ok(cuMemCreate(&page, 2 * MIB, &prop, 0));
	assert_int_equal(cudasim_holdings(NULL, 0), before + 4);
	must_hold("cuMemAlloc", first, 3 * MIB, 0);
	must_hold("cuMemAlloc", second, 100, 0);
	must_hold("cuMemHostAlloc", (uintptr_t)host, MIB, 0);
	must_hold("cuMemCreate", 0, 2 * MIB, 0);
	assert_ok(cuMemFree(first));
	assert_ok(cuMemFreeHost(host));
	assert_int_equal(cudasim_holdings(NULL, 0), before + 2);
	assert_int_equal(cudasim_fail("cuMemFree", 1, CUDA_ERROR_LAUNCH_FAILED), 0);
	assert_error(cuMemFree(second), CUDA_ERROR_LAUNCH_FAILED);
	must_hold("cuMemAlloc", second, 100, CUDA_ERROR_LAUNCH_FAILED);
	must_hold("cuMemCreate", 0, 2 * MIB, CUDA_ERROR_LAUNCH_FAILED);
	assert_ok(cuMemRelease(page));
	assert_int_equal(cudasim_holdings(NULL, 0), before + 1);
}

int main(void)
{
	setenv("CUDASIM", "memory:2G", 1);
	return cm_run_tests(NULL, NULL);
}
