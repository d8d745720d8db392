/* SPDX-License-Identifier: MIT */
/* Memory between two real processes. The other one is made before the driver is started. */
#include <string.h>
#include <unistd.h>

#include "other_process.h"
#include "sim_test.h"

static int other; /* a socket to the other process */

struct request {
	CUipcMemHandle handle;
	uint32_t expected; /* first word of the memory, to be found */
	uint32_t written;  /* and to be put in its place */
	uint64_t offset;   /* in words */
};

/* What the other process does with one handle; a line number where it went wrong, or 0. */
static int serve_one(const struct request *request)
{
	CUdeviceptr addr;
	CUdeviceptr again;
	uint32_t word = 0;

	if (cuIpcOpenMemHandle(&addr, request->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS))
		return __LINE__;
	if (cuIpcOpenMemHandle(&again, request->handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    again != addr || cuIpcCloseMemHandle(addr))
		return __LINE__;
	if (cuMemcpyDtoH(&word, addr + 4 * request->offset, 4) || word != request->expected)
		return __LINE__;
	if (cuMemsetD32(addr + 4 * request->offset, request->written, 1) || cuCtxSynchronize())
		return __LINE__;
	if (cuMemFree(addr) != CUDA_ERROR_INVALID_VALUE)
		return __LINE__;
	if (cuIpcCloseMemHandle(addr) || cuIpcCloseMemHandle(addr) != CUDA_ERROR_INVALID_VALUE)
		return __LINE__;
	return 0;
}

static int serve(int parent)
{
	struct request request;
	CUcontext ctx;

	if (cuInit(0) || cuCtxCreate(&ctx, NULL, 0, 0))
		return 1;
	while (read(parent, &request, sizeof(request)) == (ssize_t)sizeof(request)) {
		int line = serve_one(&request);

		if (write(parent, &line, sizeof(line)) != (ssize_t)sizeof(line))
			return 1;
	}
	return 0;
}

static void ask(const struct request *request)
{
	int line = -1;

	assert_int_equal(write(other, request, sizeof(*request)), sizeof(*request));
	assert_int_equal(read(other, &line, sizeof(line)), sizeof(line));
	if (line)
		fail_msg("the other process failed at line %d", line);
}

with_context(both_processes_see_the_same_bytes)
{
	struct request request = {.expected = 123, .written = 456, .offset = 1000};
	CUdeviceptr addr;

	assert_ok(cuMemAlloc(&addr, 8 * MIB));
	assert_ok(cuMemsetD32(addr + 4000, 123, 1));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuIpcGetMemHandle(&request.handle, addr));
	ask(&request);
	assert_int_equal(*(uint32_t *)(addr + 4000), 456);
	assert_ok(cuMemFree(addr));
}

with_context(a_handle_means_the_whole_allocation)
{
	CUipcMemHandle base;
	CUipcMemHandle inside;
	CUdeviceptr addr;

	assert_ok(cuMemAlloc(&addr, 4 * MIB));
	assert_ok(cuIpcGetMemHandle(&base, addr));
	assert_ok(cuIpcGetMemHandle(&inside, addr + MIB));
	assert_memory_equal(&base, &inside, sizeof(base));
	assert_ok(cuMemFree(addr));
	assert_error(cuIpcGetMemHandle(&base, addr), CUDA_ERROR_INVALID_VALUE);
}

with_context(small_allocations_travel_too)
{
	struct request request = {.expected = 5, .written = 6};
	CUdeviceptr first;
	CUdeviceptr second;

	assert_ok(cuMemAlloc(&first, 100));
	assert_ok(cuMemAlloc(&second, 100));
	assert_ok(cuMemsetD32(first, 1, 1));
	assert_ok(cuMemsetD32(second, 5, 1));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuIpcGetMemHandle(&request.handle, second));
	ask(&request);
	assert_int_equal(*(uint32_t *)first, 1);
	assert_int_equal(*(uint32_t *)second, 6);
}

with_context(handles_are_for_others)
{
	CUipcMemHandle handle;
	CUdeviceptr addr;
	CUdeviceptr opened;

	assert_ok(cuMemAlloc(&addr, MIB));
	assert_ok(cuIpcGetMemHandle(&handle, addr));
	assert_error(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		     CUDA_ERROR_INVALID_CONTEXT);
	memset(&handle, 7, sizeof(handle));
	assert_error(cuIpcOpenMemHandle(&opened, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		     CUDA_ERROR_INVALID_VALUE);
}

int main(void)
{
	const pid_t child = start_other(serve, &other);
	const int failed = cm_run_tests(NULL, NULL);

	return end_other(child, other) || failed;
}
