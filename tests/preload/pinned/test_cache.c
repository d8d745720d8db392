/* SPDX-License-Identifier: MIT */
/*
 * What the library does with pinned host memory, by the driver's calls and by its own statistics,
 * which are in the folder REGION_DIR.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/reader.h"
#include "stats/start_time.h"
#include "tests/preload/pinned/pinned.h"

#define FREE   "cuMemFreeHost"
#define RECORD "cuCtxRecordEvent"
#define NS_MS  UINT64_C(1000000)

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

CASE(same_request_again_asks_no_driver)
{
	uint64_t allocs, frees;
	void *ptr;

	ptr = get(200 * KIB);
	put(ptr);
	allocs = cudasim_calls(ALLOC);
	frees = cudasim_calls(FREE);
	assert_ptr_equal(get(200 * KIB), ptr);
	put(ptr);
	assert_int_equal(cudasim_calls(ALLOC), allocs);
	assert_int_equal(cudasim_calls(FREE), frees);
}

CASE(counters_tell_what_the_program_did)
{
	struct cm_host_row before, row;
	char *pages;
	void *ptr;

	before = host();
	pages = aligned_alloc(4096, 8 * KIB);
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

CASE(device_counters_know_nothing_of_it)
{
	struct cm_device_row before, after;
	CUdeviceptr device;
	bool torn;

	assert_int_equal(cuMemAlloc(&device, 4096), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
	(void)host();
	assert_int_equal(cm_reader_refresh(reader), 0);
	assert_int_equal(cm_reader_read_device(reader, 0, &before, &torn), 0);
	put(get(3 * MIB));
	assert_int_equal(cm_reader_read_device(reader, 0, &after, &torn), 0);
	assert_memory_equal(before.stat, after.stat, sizeof(before.stat));
}

CASE(failure_is_answered_by_giving_back)
{
	uint64_t frees;
	void *ptr;

	put(get(400 * KIB));
	frees = cudasim_calls(FREE);
	assert_int_equal(cudasim_fail(ALLOC, 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	ptr = get(700 * KIB);
	assert_int_equal(cudasim_calls(FREE), frees + 1);
	put(ptr);
}

/* Idle memory is as much in the way of pages that the program has from elsewhere. */
CASE(registration_that_fails_is_answered_by_giving_back)
{
	char *pages = aligned_alloc(4096, 8 * KIB);
	uint64_t frees;

	put(get(400 * KIB));
	frees = cudasim_calls(FREE);
	assert_int_equal(cudasim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cuMemHostRegister(pages, 5000, 0), CUDA_SUCCESS);
	assert_true(cudasim_calls(FREE) > frees);
	assert_int_equal(host().registered.current, 1);
	assert_int_equal(cuMemHostUnregister(pages), CUDA_SUCCESS);
	/* With nothing idle, neither here nor on the device, the error is the program's. */
	assert_int_equal(cudasim_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cuMemHostRegister(pages, 5000, 0), CUDA_ERROR_OUT_OF_MEMORY);
	free(pages);
}

/* The simulated driver has no such memory: it is asked twice, and then says so. */
CASE(memory_of_the_host_to_map_that_fails_is_answered_by_giving_back)
{
	static const CUmemAllocationProp on_host = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_HOST},
	};
	CUmemGenericAllocationHandle handle;
	uint64_t frees, calls;

	put(get(400 * KIB));
	frees = cudasim_calls(FREE);
	calls = cudasim_calls("cuMemCreate");
	assert_int_equal(cudasim_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY), 0);
	assert_int_equal(cuMemCreate(&handle, 2048 * KIB, &on_host, 0), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cudasim_calls("cuMemCreate"), calls + 2);
	assert_true(cudasim_calls(FREE) > frees);
}

CASE(nothing_is_recorded_while_a_capture_is_active)
{
	uint64_t records;
	CUgraph graph;
	CUstream stream;
	void *ptr;

	ptr = get(96 * KIB);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	assert_int_equal(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
			 CUDA_SUCCESS);
	records = cudasim_calls(RECORD);
	put(ptr);
	assert_int_equal(cudasim_calls(RECORD), records);
	assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
	assert_ptr_equal(get(96 * KIB), ptr);
	put(ptr);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
}

CASE(free_waits_for_copies_unless_never)
{
	const char *conf = getenv("CUDAMEM_CONF");
	const bool waits = !conf || !strstr(conf, "sync:never");
	CUdeviceptr device;
	CUstream stream;
	uint64_t start;
	void *ptr;

	assert_int_equal(cuMemAlloc(&device, MIB), CUDA_SUCCESS);
	assert_int_equal(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
	ptr = get(MIB);
	assert_int_equal(cudasim_plan("copy:50ms"), 0);
	assert_int_equal(cuMemcpyDtoHAsync(ptr, device, MIB, stream), CUDA_SUCCESS);
	start = cudasim_now();
	put(ptr);
	assert_int_equal(cudasim_now() - start >= 40 * NS_MS, waits);
	assert_int_equal(cudasim_plan("copy:0ns"), 0);
	assert_int_equal(cuStreamDestroy(stream), CUDA_SUCCESS);
	assert_int_equal(cuMemFree(device), CUDA_SUCCESS);
}

CASE(block_is_as_large_as_its_class)
{
	size_t bytes = 0;
	void *ptr = get(9 * MIB);

	assert_int_equal(cuMemGetAddressRange(NULL, &bytes, (CUdeviceptr)(uintptr_t)ptr),
			 CUDA_SUCCESS);
	assert_int_equal(bytes, 9 * MIB);
	put(ptr);
	ptr = get(9 * MIB + 1);
	assert_int_equal(cuMemGetAddressRange(NULL, &bytes, (CUdeviceptr)(uintptr_t)ptr),
			 CUDA_SUCCESS);
	assert_int_equal(bytes, 10 * MIB);
	put(ptr);
}

CASE(block_comes_with_its_last_contents)
{
	char *ptr = get(600 * KIB);

	memset(ptr, 0x33, 600 * KIB);
	put(ptr);
	ptr = get(600 * KIB);
	assert_int_equal(ptr[12345], 0x33);
	put(ptr);
}

CASE(freed_block_still_has_flags)
{
	unsigned flags;
	void *ptr = get_kind(CU_MEMHOSTALLOC_PORTABLE, 700 * KIB);

	put(ptr);
	assert_int_equal(cuMemHostGetFlags(&flags, ptr), CUDA_SUCCESS);
	assert_int_equal(cuMemFreeHost(ptr), CUDA_ERROR_INVALID_VALUE);
}

CASE(idle_memory_stays_with_the_process_up_to_a_limit)
{
	void *ptr[12];
	size_t i;

	for (i = 0; i < 12; i++)
		ptr[i] = get(64 * MIB);
	for (i = 0; i < 12; i++)
		put(ptr[i]);
	assert_int_equal(host().reserved_bytes.current, 256 * MIB);
	assert_int_equal(host().allocated_bytes.current, 0);
}
