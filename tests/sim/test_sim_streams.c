/* SPDX-License-Identifier: MIT */
/* Streams, events and kernels of the simulated driver. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "sim_test.h"

static const char KERNELS[] = "cudasim-module\n"
			      "kernel work\n time 50us\nend\n"
			      "kernel fill\n"
			      " params ptr u32 u64\n"
			      " time 10us 1ns p2 # a nanosecond each\n"
			      " writes p0 p2*4\n"
			      " do fill p0 p1 p2\n"
			      "end\n"
			      "kernel add\n"
			      " params ptr ptr ptr u64\n"
			      " reads p1 p3*4\n reads p2 p3*4\n writes p0 p3*4\n"
			      " do add p0 p1 p2 p3\n"
			      "end\n"
			      "kernel persistent\n"
			      " params ptr\n reads p0 4\n until p0\n"
			      "end\n"
			      "global counter 8\n";

with_context(work_takes_its_planned_time)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream stream;
	uint64_t begin;

	assert_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	begin = cudasim_now();
	launch(work, stream, NULL);
	launch(work, stream, NULL);
	assert_int_equal(cudasim_now(), begin);
	assert_error(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	cudasim_advance(99 * US);
	assert_error(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	cudasim_advance(US);
	assert_ok(cuStreamQuery(stream));
	launch(work, stream, NULL);
	assert_ok(cuStreamSynchronize(stream));
	assert_int_equal(cudasim_now() - begin, 150 * US);
}

/* What two launches take in two streams, made with these flags; 0: the legacy stream itself. */
static uint64_t time_two(bool own_first, unsigned first_flags, unsigned second_flags)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream first = NULL;
	CUstream second;
	uint64_t begin = cudasim_now();

	if (own_first)
		assert_ok(cuStreamCreate(&first, first_flags));
	assert_ok(cuStreamCreate(&second, second_flags));
	launch(work, first, NULL);
	launch(work, second, NULL);
	assert_ok(cuCtxSynchronize());
	return cudasim_now() - begin;
}

with_context(streams_overlap_but_for_the_legacy_one)
{
	assert_int_equal(time_two(true, 0, 0), 50 * US);
	assert_int_equal(time_two(true, CU_STREAM_NON_BLOCKING, 0), 50 * US);
	assert_int_equal(time_two(false, 0, 0), 100 * US);
	assert_int_equal(time_two(false, 0, CU_STREAM_NON_BLOCKING), 50 * US);
}

with_context(the_legacy_stream_waits_for_the_blocking_ones)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream stream;
	uint64_t begin;

	assert_ok(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
	begin = cudasim_now();
	launch(work, stream, NULL);
	launch(work, CU_STREAM_LEGACY, NULL);
	assert_ok(cuStreamSynchronize(NULL));
	assert_int_equal(cudasim_now() - begin, 100 * US);
}

with_context(events_order_streams)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream streams[2];
	CUevent begin;
	CUevent end;
	float ms = -1;

	for (unsigned i = 0; i < 2; i++)
		assert_ok(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
	assert_ok(cuEventCreate(&begin, CU_EVENT_DEFAULT));
	assert_ok(cuEventCreate(&end, CU_EVENT_DEFAULT));
	assert_ok(cuEventQuery(end));
	assert_ok(cuEventRecord(begin, streams[0]));
	launch(work, streams[0], NULL);
	assert_ok(cuEventRecord(end, streams[0]));
	assert_error(cuEventQuery(end), CUDA_ERROR_NOT_READY);
	assert_error(cuEventElapsedTime(&ms, begin, end), CUDA_ERROR_NOT_READY);
	assert_ok(cuStreamWaitEvent(streams[1], end, 0));
	launch(work, streams[1], NULL);
	assert_ok(cuEventRecord(end, streams[1]));
	assert_ok(cuEventSynchronize(end));
	assert_ok(cuEventElapsedTime(&ms, begin, end));
	assert_true(ms > 0.0999f && ms < 0.1001f);
	assert_ok(cuEventDestroy(end));
	assert_error(cuEventQuery(end), CUDA_ERROR_INVALID_HANDLE);
}

with_context(a_context_event_captures_every_stream)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream streams[2];
	CUevent event;

	assert_ok(cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
	assert_ok(cuStreamCreate(&streams[1], CU_STREAM_DEFAULT));
	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	launch(work, streams[0], NULL);
	launch(work, streams[1], NULL);
	launch(work, streams[1], NULL);
	/* What a destroyed stream left behind counts, too. */
	assert_ok(cuStreamDestroy(streams[1]));
	assert_ok(cuCtxRecordEvent(*state, event));
	cudasim_advance(99 * US);
	assert_error(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	cudasim_advance(US);
	assert_ok(cuEventQuery(event));
}

with_context(a_barrier_orders_all_future_work)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUstream before;
	CUstream after;
	CUevent event;
	uint64_t begin = cudasim_now();

	assert_ok(cuStreamCreate(&before, CU_STREAM_NON_BLOCKING));
	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	launch(work, before, NULL);
	assert_ok(cuCtxRecordEvent(*state, event));
	assert_ok(cuCtxWaitEvent(*state, event));
	assert_ok(cuStreamCreate(&after, CU_STREAM_NON_BLOCKING));
	launch(work, after, NULL);
	assert_int_equal(cudasim_now(), begin);
	assert_ok(cuStreamSynchronize(after));
	assert_int_equal(cudasim_now() - begin, 100 * US);
}

with_context(events_belong_to_contexts)
{
	CUcontext other;
	CUevent event;

	assert_ok(cuCtxCreate(&other, NULL, 0, 0));
	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	assert_error(cuCtxRecordEvent(*state, event), CUDA_ERROR_INVALID_HANDLE);
	assert_ok(cuCtxRecordEvent(other, event));
	assert_ok(cuCtxWaitEvent(*state, event));
	assert_ok(cuCtxDestroy(other));
	assert_error(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuCtxRecordEvent(other, event), CUDA_ERROR_INVALID_CONTEXT);
}

with_context(freeing_waits_for_the_device)
{
	CUfunction work = load_kernel(KERNELS, "work");
	CUdeviceptr addr;
	CUstream stream;
	uint64_t begin;

	assert_ok(cuMemAlloc(&addr, MIB));
	assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	begin = cudasim_now();
	launch(work, stream, NULL);
	assert_ok(cuMemFree(addr));
	assert_int_equal(cudasim_now() - begin, 50 * US);
}

with_context(kernels_and_copies_compute_right_answers)
{
	CUfunction fill = load_kernel(KERNELS, "fill");
	CUfunction add = load_kernel(KERNELS, "add");
	uint64_t count = 1000;
	const float one = 1.0f;
	float ones[1000];
	float sums[1000];
	uint32_t bits;
	CUdeviceptr a;
	CUdeviceptr b;
	void *fill_params[] = {&a, &bits, &count};
	void *add_params[] = {&b, &a, &b, &count};

	memcpy(&bits, &one, sizeof(bits));
	for (unsigned i = 0; i < 1000; i++)
		ones[i] = 2.0f;
	assert_ok(cuMemAlloc(&a, sizeof(ones)));
	assert_ok(cuMemAlloc(&b, sizeof(ones)));
	launch(fill, NULL, fill_params);
	assert_ok(cuMemcpyHtoDAsync(b, ones, sizeof(ones), NULL));
	/* Pageable memory has been read when the call returns. */
	ones[0] = 100.0f;
	launch(add, NULL, add_params);
	assert_ok(cuMemcpyDtoH(sums, b, sizeof(sums)));
	for (unsigned i = 0; i < 1000; i++)
		assert_true(sums[i] == 3.0f);
}

with_context(effects_come_in_the_order_of_time)
{
	CUfunction fill = load_kernel(KERNELS, "fill");
	uint64_t count = 1;
	uint32_t value = 5;
	CUdeviceptr addr;
	void *params[] = {&addr, &value, &count};
	uint32_t *host;
	CUstream stream;

	assert_ok(cuMemHostAlloc((void **)&host, 4, 0));
	*host = 1;
	assert_ok(cuMemAlloc(&addr, 4));
	assert_ok(cuMemsetD32(addr, 9, 1));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	launch(fill, stream, params);
	assert_ok(cuMemcpyDtoHAsync(host, addr, 4, stream));
	assert_int_equal(*host, 1);
	cudasim_advance(11 * US);
	assert_int_equal(*(uint32_t *)addr, 5);
	assert_int_equal(*host, 1);
	assert_ok(cuStreamSynchronize(stream));
	assert_int_equal(*host, 5);
}

with_context(a_persistent_kernel_ends_when_told)
{
	CUfunction persistent = load_kernel(KERNELS, "persistent");
	CUdeviceptr flag;
	CUstream stream;
	CUstream other;
	CUevent event;
	void *params[] = {&flag};

	assert_ok(cuMemAlloc(&flag, 4));
	assert_ok(cuMemsetD32(flag, 0, 1));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	assert_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	launch(persistent, stream, params);
	assert_ok(cuCtxRecordEvent(*state, event));
	cudasim_advance(1000 * MS);
	assert_error(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	assert_ok(cuStreamSynchronize(other));
	assert_ok(cuMemsetD32Async(flag, 1, 1, other));
	assert_ok(cuEventSynchronize(event));
}

with_context(streams_wait_for_words_of_memory)
{
	CUdeviceptr word;
	CUstream stream;
	CUstream other;

	assert_ok(cuMemAlloc(&word, 8));
	assert_ok(cuMemsetD8(word, 0, 8));
	assert_ok(cuCtxSynchronize());
	assert_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	assert_ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	assert_ok(cuStreamWaitValue32(stream, word, 3, CU_STREAM_WAIT_VALUE_GEQ));
	assert_ok(cuStreamWriteValue32(other, word, 2, 0));
	assert_ok(cuStreamSynchronize(other));
	assert_error(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	assert_ok(cuStreamWriteValue32(other, word, 4, 0));
	assert_ok(cuStreamSynchronize(stream));
	assert_error(cuStreamWaitValue32(stream, word + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

static CUresult inner_result;

static void CUDA_CB call_the_driver(void *data)
{
	size_t left;
	size_t total;

	*(CUresult *)data = cuMemGetInfo(&left, &total);
}

with_context(host_functions_run_in_turn_and_may_not_call)
{
	CUfunction work = load_kernel(KERNELS, "work");
	uint64_t begin = cudasim_now();

	inner_result = CUDA_SUCCESS;
	launch(work, NULL, NULL);
	assert_ok(cuLaunchHostFunc(NULL, call_the_driver, &inner_result));
	launch(work, NULL, NULL);
	assert_int_equal(inner_result, CUDA_SUCCESS);
	assert_ok(cuCtxSynchronize());
	assert_error(inner_result, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(cudasim_now() - begin, 100 * US);
}

with_context(touching_freed_memory_breaks_the_context)
{
	CUfunction fill = load_kernel(KERNELS, "fill");
	uint64_t count = 1000;
	uint32_t value = 0;
	CUdeviceptr addr;
	CUdeviceptr other;
	void *params[] = {&addr, &value, &count};

	assert_ok(cuMemAlloc(&addr, 512));
	launch(fill, NULL, params);
	assert_error(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_error(cuMemAlloc(&other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
	assert_error(cuStreamSynchronize(NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void *use_own_default_stream(void *data)
{
	CUfunction work = *(CUfunction *)data;
	CUcontext ctx;
	uint64_t begin = cudasim_now();

	if (cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx) ||
	    cuLaunchKernel(work, 1, 1, 1, 1, 1, 1, 0, CU_STREAM_PER_THREAD, NULL, NULL) ||
	    cuStreamSynchronize(CU_STREAM_PER_THREAD) || cuDevicePrimaryCtxRelease(0))
		return NULL;
	return (void *)(uintptr_t)(cudasim_now() - begin);
}

with_context(each_thread_has_a_default_stream_of_its_own)
{
	CUfunction work;
	CUcontext ctx;
	pthread_t thread;
	void *passed;
	uint64_t begin;

	assert_ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	assert_ok(cuCtxPushCurrent(ctx));
	work = load_kernel(KERNELS, "work");
	begin = cudasim_now();
	launch(work, CU_STREAM_PER_THREAD, NULL);
	assert_int_equal(pthread_create(&thread, NULL, use_own_default_stream, &work), 0);
	pthread_join(thread, &passed);
	assert_int_equal((uintptr_t)passed, 50 * US);
	assert_int_equal(cudasim_now() - begin, 50 * US);
	assert_ok(cuCtxPopCurrent(&ctx));
	assert_ok(cuDevicePrimaryCtxRelease(0));
}

with_context(handles_are_checked)
{
	CUstream stream;
	char junk[256];

	assert_ok(cuStreamCreate(&stream, 0));
	assert_ok(cuStreamDestroy(stream));
	assert_error(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuStreamQuery((CUstream)junk), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuEventQuery((CUevent)junk), CUDA_ERROR_INVALID_HANDLE);
	assert_error(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

with_context(module_variables_are_memory)
{
	CUmodule module;
	CUdeviceptr addr;
	uint64_t value = 7;
	size_t bytes;

	assert_ok(cuModuleLoadData(&module, KERNELS));
	assert_ok(cuModuleGetGlobal(&addr, &bytes, module, "counter"));
	assert_int_equal(bytes, 8);
	assert_ok(cuMemcpyDtoH(&value, addr, 8));
	assert_int_equal(value, 0);
	assert_error(cuModuleGetGlobal(&addr, &bytes, module, "other"), CUDA_ERROR_NOT_FOUND);
	assert_error(cuMemFree(addr), CUDA_ERROR_INVALID_VALUE);
	assert_ok(cuModuleUnload(module));
	assert_error(cuModuleLoadData(&module, "cudasim-module\nkernel k\n until p0\nend\n"),
		     CUDA_ERROR_INVALID_PTX);
}

int main(void)
{
	setenv("CUDASIM", "memory:1G", 1);
	return cm_run_tests(NULL, NULL);
}
