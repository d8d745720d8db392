/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory as a program sees it, on the simulated driver. The first group of cases asks
 * for what the driver documents and passes with and without the library; the second is about the
 * library itself, and is left out where REGION_DIR does not say where its statistics are.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/reader.h"
#include "stats/region.h"
#include "tests/sim/cudasim.h"
#include "tests/unit/cmocka_all.h"

#define KIB    ((size_t)1 << 10)
#define MIB    ((size_t)1 << 20)
#define NS_MS  UINT64_C(1000000)
#define KINDS  9 /* the flags of cuMemHostAlloc, and cuMemAllocHost */
#define ALLOC  "cuMemHostAlloc"
#define FREE   "cuMemFreeHost"
#define RECORD "cuCtxRecordEvent"

static CUcontext context;

static int open_context(void **state)
{
	(void)state;
	cudasim_clear_failures();
	return cuInit(0) != CUDA_SUCCESS || cuCtxCreate(&context, NULL, 0, 0) != CUDA_SUCCESS;
}

static int close_context(void **state)
{
	(void)state;
	cudasim_complete_all();
	return cuCtxDestroy(context) != CUDA_SUCCESS;
}

static CUresult ask(unsigned kind, size_t bytes, void **ptr)
{
	return kind == KINDS - 1 ? cuMemAllocHost(ptr, bytes) : cuMemHostAlloc(ptr, bytes, kind);
}

static void *get_kind(unsigned kind, size_t bytes)
{
	void *ptr = NULL;

	assert_int_equal(ask(kind, bytes, &ptr), CUDA_SUCCESS);
	assert_non_null(ptr);
	return ptr;
}

static void *get(size_t bytes)
{
	return get_kind(0, bytes);
}

static void put(void *ptr)
{
	assert_int_equal(cuMemFreeHost(ptr), CUDA_SUCCESS);
}

/* ---- with and without the library ---- */

static void every_block_answers_for_its_kind(void **state)
{
	unsigned kind, round, flags;
	CUmemorytype type;
	CUdeviceptr device;
	void *ptr;

	(void)state;
	for (round = 0; round < 3; round++)
		for (kind = 0; kind < KINDS; kind++) {
			ptr = get_kind(kind, 5 * KIB);
			flags = 77;
			assert_int_equal(cuMemHostGetFlags(&flags, ptr), CUDA_SUCCESS);
			assert_int_equal(flags, kind == KINDS - 1 ? 0 : kind);
			assert_int_equal(cuMemHostGetDevicePointer(&device, ptr, 0), CUDA_SUCCESS);
			assert_int_equal(cuPointerGetAttribute(&type,
							       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
							       (CUdeviceptr)(uintptr_t)ptr),
					 CUDA_SUCCESS);
			assert_int_equal(type, CU_MEMORYTYPE_HOST);
			put(ptr);
		}
}

static void block_can_be_used_to_its_last_byte(void **state)
{
	static const size_t sizes[] = {1, 511, 513, 4096, 4097, 100000, MIB + 1, 9 * MIB + 513};
	size_t i, round;
	char *ptr;

	(void)state;
	for (round = 0; round < 2; round++)
		for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			ptr = get(sizes[i]);
			memset(ptr, 0x5a, sizes[i]);
			assert_int_equal((uintptr_t)ptr % 512, 0);
			put(ptr);
		}
}

static void odd_requests_get_the_drivers_answer(void **state)
{
	void *ptr = &ptr;

	(void)state;
	assert_int_equal(cuMemHostAlloc(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 0, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 4096, 8), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, 4096, ~0u), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostAlloc(&ptr, (size_t)1 << 62, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuMemAllocHost(&ptr, 0), CUDA_ERROR_INVALID_VALUE);
	assert_ptr_equal(ptr, &ptr);
}

static void bad_free_gets_the_drivers_answer(void **state)
{
	char local, *ptr = get(8 * KIB), *other = get(8 * KIB);
	CUdeviceptr device;

	(void)state;
	assert_int_equal(cuMemAlloc(&device, 4096), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(NULL), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(&local), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(ptr + 512), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost((void *)(uintptr_t)device), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFree((CUdeviceptr)(uintptr_t)ptr), CUDA_ERROR_INVALID_VALUE);
	put(ptr);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	put(other);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
}

static void copy_on_its_way_reaches_no_later_block(void **state)
{
	CUdeviceptr device;
	CUstream stream;
	char *ptr, *later;
	size_t i;

	(void)state;
	assert_int_equal(cuMemAlloc(&device, MIB), CUDA_SUCCESS);
	assert_int_equal(cuMemsetD8(device, 0xdd, MIB), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	ptr = get(MIB);
	assert_int_equal(cudasim_plan("copy:50ms"), 0);
	assert_int_equal(cuMemcpyDtoHAsync(ptr, device, MIB, stream), CUDA_SUCCESS);
	put(ptr);
	later = get(MIB);
	memset(later, 0x11, MIB);
	cudasim_complete_all();
	for (i = 0; i < MIB && later[i] == 0x11; i++)
		;
	assert_int_equal(i, MIB);
	put(later);
	assert_int_equal(cudasim_plan("copy:0ns"), 0);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
}

static void destroyed_context_frees_what_it_made(void **state)
{
	void *ptr, *portable, *kept = get(64 * KIB);
	CUcontext other;

	(void)state;
	assert_int_equal(cuCtxCreate(&other, NULL, 0, 0), CUDA_SUCCESS);
	ptr = get(64 * KIB);
	portable = get_kind(CU_MEMHOSTALLOC_PORTABLE, 64 * KIB);
	put(get(64 * KIB));
	assert_int_equal(cuCtxDestroy(other), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(context), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemFreeHost(portable), CUDA_ERROR_INVALID_VALUE);
	memset(get(64 * KIB), 0x22, 64 * KIB);
	put(kept);
}

static void registering_passes(void **state)
{
	char *pages = aligned_alloc(4096, 16 * KIB);
	unsigned flags = 0;

	(void)state;
	assert_int_equal(cuMemHostRegister(pages, 12 * KIB, CU_MEMHOSTREGISTER_PORTABLE),
			 CUDA_SUCCESS);
	assert_int_equal(cuMemHostRegister(pages, 4 * KIB, 0),
			 CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	assert_int_equal(cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_SUCCESS);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	assert_int_not_equal(cuMemHostGetFlags(&flags, pages), CUDA_SUCCESS);
	free(pages);
}

static void driver_without_memory_is_heard(void **state)
{
	void *ptr = &ptr;

	(void)state;
	assert_int_equal(cudasim_fail(ALLOC, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cudasim_fail(ALLOC, 2, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cuMemHostAlloc(&ptr, 48 * KIB, 0), CUDA_ERROR_OUT_OF_MEMORY);
	assert_ptr_equal(ptr, &ptr);
}

static void free_during_a_capture_is_harmless(void **state)
{
	void *ptr = get(96 * KIB);
	CUgraph graph = NULL;
	CUstream stream;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_SUCCESS);
	put(ptr);
	put(get(96 * KIB));
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_non_null(graph);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

/* ---- under the library ---- */

static struct cm_reader *reader;

static void open_region(void)
{
	char path[512], why[CM_READER_WHY_BYTES];
	uint64_t start;

	assert_int_equal(cm_process_start_time((uint32_t)getpid(), &start), 0);
	(void)snprintf(path, sizeof(path), "%s/" CM_REGION_PREFIX "%u.%u.%llu",
		       getenv("REGION_DIR"), (unsigned)geteuid(), (unsigned)getpid(),
		       (unsigned long long)start);
	if (cm_reader_open(path, &reader, why))
		fail_msg("%s: %s", path, why);
}

static struct cm_host_row host(void)
{
	struct cm_host_row row;
	bool torn;

	if (!reader)
		open_region();
	assert_int_equal(cm_reader_read_host(reader, &row, &torn), 0);
	assert_false(torn);
	return row;
}

static void same_request_again_asks_no_driver(void **state)
{
	void *ptr = get(200 * KIB);
	uint64_t allocs, frees;

	(void)state;
	put(ptr);
	allocs = cudasim_calls(ALLOC);
	frees = cudasim_calls(FREE);
	assert_ptr_equal(get(200 * KIB), ptr);
	put(ptr);
	assert_int_equal(cudasim_calls(ALLOC), allocs);
	assert_int_equal(cudasim_calls(FREE), frees);
}

static void books_tell_what_the_program_did(void **state)
{
	struct cm_host_row before = host(), row;
	char *pages = aligned_alloc(4096, 8 * KIB);
	void *ptr;

	(void)state;
	ptr = get_kind(CU_MEMHOSTALLOC_WRITECOMBINED, 300 * KIB);
	row = host();
	assert_int_equal(row.allocated.current, before.allocated.current + 1);
	assert_int_equal(row.allocated_bytes.current,
			 before.allocated_bytes.current + (int64_t)(320 * KIB));
	assert_int_equal(row.segment.current, before.segment.current + 1);
	assert_int_equal(row.num_host_alloc, before.num_host_alloc + 1);
	assert_int_equal(row.alloc_time.count, before.alloc_time.count + 1);
	assert_true(row.alloc_time.total_ns > before.alloc_time.total_ns);
	put(ptr);
	row = host();
	assert_int_equal(row.allocated.freed, before.allocated.freed + 1);
	assert_int_equal(row.segment.current, before.segment.current + 1);
	assert_int_equal(cuMemHostRegister(pages, 5000, 0), CUDA_SUCCESS);
	row = host();
	assert_int_equal(row.registered.current, 1);
	assert_int_equal(row.registered_bytes.current, 5000);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_SUCCESS);
	row = host();
	assert_int_equal(row.registered.current, 0);
	assert_int_equal(row.num_host_alloc, before.num_host_alloc + 2);
	assert_int_equal(row.num_host_free, before.num_host_free + 1);
	free(pages);
}

static void device_books_know_nothing_of_it(void **state)
{
	struct cm_device_row before, after;
	CUdeviceptr device;
	bool torn;

	(void)state;
	assert_int_equal(cuMemAlloc(&device, 4096), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
	(void)host();
	assert_int_equal(cm_reader_refresh(reader), 0);
	assert_int_equal(cm_reader_read_device(reader, 0, &before, &torn), 0);
	put(get(3 * MIB));
	assert_int_equal(cm_reader_read_device(reader, 0, &after, &torn), 0);
	assert_memory_equal(before.stat, after.stat, sizeof(before.stat));
}

static void failure_is_answered_by_giving_back(void **state)
{
	uint64_t frees;
	void *ptr;

	(void)state;
	put(get(400 * KIB));
	frees = cudasim_calls(FREE);
	assert_int_equal(cudasim_fail(ALLOC, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	ptr = get(700 * KIB);
	assert_int_equal(cudasim_calls(FREE), frees + 1);
	put(ptr);
}

static void nothing_is_recorded_while_a_capture_is_active(void **state)
{
	void *ptr = get(96 * KIB);
	uint64_t records;
	CUgraph graph;
	CUstream stream;

	(void)state;
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
	records = cudasim_calls(RECORD);
	put(ptr);
	assert_int_equal(cudasim_calls(RECORD), records);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_ptr_equal(get(96 * KIB), ptr);
	put(ptr);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)

int main(void)
{
	const struct CMUnitTest both[] = {
		CASE(every_block_answers_for_its_kind),
		CASE(block_can_be_used_to_its_last_byte),
		CASE(odd_requests_get_the_drivers_answer),
		CASE(bad_free_gets_the_drivers_answer),
		CASE(copy_on_its_way_reaches_no_later_block),
		CASE(destroyed_context_frees_what_it_made),
		CASE(registering_passes),
		CASE(driver_without_memory_is_heard),
		CASE(free_during_a_capture_is_harmless),
	};
	const struct CMUnitTest ours[] = {
		CASE(same_request_again_asks_no_driver),
		CASE(books_tell_what_the_program_did),
		CASE(device_books_know_nothing_of_it),
		CASE(failure_is_answered_by_giving_back),
		CASE(nothing_is_recorded_while_a_capture_is_active),
	};

	return cmocka_run_group_tests_name("pinned", both, NULL, NULL) +
	       (getenv("REGION_DIR") ? cmocka_run_group_tests_name("pinned_cache", ours, NULL, NULL)
				     : 0);
}
