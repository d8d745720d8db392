/* SPDX-License-Identifier: MIT */
/* The simulated runtime: its binding, its last error, its contexts. */
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "sim_test.h"

#define assert_runs(call)        assert_int_equal(call, cudaSuccess)
#define assert_fails(call, code) assert_int_equal(call, code)

static int forget_error(void **state)
{
	(void)state;
	(void)cudaGetLastError();
	cudasim_clear_failures();
	return 0;
}

#define runtime_test(test) CM_TEST_WITH(test, forget_error, NULL)

CM_TEST(binding_comes_with_the_first_call)
{
	int version = 0;

	assert_int_equal(cudasim_calls(NULL), 0);
	assert_runs(cudaRuntimeGetVersion(&version));
	assert_int_equal(version, CUDART_VERSION);
	assert_int_equal(cudasim_calls(NULL), 0);
	assert_runs(cudaDriverGetVersion(&version));
	assert_int_equal(version, CUDASIM_VERSION);
	/* The probe, the resolver twice, and every function through the resolver it gave. */
	assert_true(cudasim_calls("cuGetProcAddress_v2") > 100);
	assert_int_equal(cudasim_calls("cuInit"), 0);
	assert_runs(cudaFree(NULL));
	assert_int_equal(cudasim_calls("cuInit"), 1);
	assert_int_equal(cudasim_calls("cuDevicePrimaryCtxRetain"), 1);
}

runtime_test(nothing_of_no_size_is_a_null_pointer)
{
	uint64_t before = cudasim_calls("cuMemAlloc_v2");
	void *pointer = state;

	assert_runs(cudaMalloc(&pointer, 0));
	assert_null(pointer);
	assert_runs(cudaFree(pointer));
	assert_fails(cudaMalloc(NULL, 1), cudaErrorInvalidValue);
	assert_int_equal(cudasim_calls("cuMemAlloc_v2"), before);
	assert_runs(cudaMallocHost(&pointer, 0));
	assert_null(pointer);
	assert_runs(cudaFreeHost(pointer));
}

runtime_test(the_last_error_stays_until_it_is_read)
{
	void *pointer;

	assert_fails(cudaMalloc(&pointer, (size_t)1 << 50), cudaErrorMemoryAllocation);
	assert_runs(cudaMalloc(&pointer, 64));
	assert_fails(cudaPeekAtLastError(), cudaErrorMemoryAllocation);
	assert_fails(cudaGetLastError(), cudaErrorMemoryAllocation);
	assert_runs(cudaGetLastError());
	assert_runs(cudaFree(pointer));
	assert_fails(cudaFree(pointer), cudaErrorInvalidValue);
	assert_fails(cudaGetLastError(), cudaErrorInvalidValue);
}

static void *read_last_error(void *unused)
{
	(void)unused;
	return (void *)(uintptr_t)cudaGetLastError();
}

runtime_test(each_thread_has_a_last_error_of_its_own)
{
	pthread_t thread;
	void *seen = state;

	assert_fails(cudaFree(state), cudaErrorInvalidValue);
	assert_int_equal(pthread_create(&thread, NULL, read_last_error, NULL), 0);
	pthread_join(thread, &seen);
	assert_int_equal((uintptr_t)seen, cudaSuccess);
	assert_fails(cudaGetLastError(), cudaErrorInvalidValue);
}

runtime_test(driver_errors_arrive_as_they_are)
{
	void *pointer;

	assert_int_equal(cudasim_fail("cuMemAlloc", 1, CUDA_ERROR_ECC_UNCORRECTABLE), 0);
	assert_fails(cudaMalloc(&pointer, 1), cudaErrorECCUncorrectable);
	/* And stays: that one breaks the context. */
	assert_fails(cudaMalloc(&pointer, 1), cudaErrorECCUncorrectable);
	assert_runs(cudaDeviceReset());
	assert_runs(cudaMalloc(&pointer, 1));
	assert_runs(cudaFree(pointer));
}

runtime_test(devices_are_chosen_by_thread)
{
	struct cudaDeviceProp properties;
	struct cudaPointerAttributes attributes;
	void *pointer;
	int device = -1;

	assert_runs(cudaSetDevice(1));
	assert_runs(cudaGetDevice(&device));
	assert_int_equal(device, 1);
	assert_runs(cudaMalloc(&pointer, 64));
	assert_runs(cudaPointerGetAttributes(&attributes, pointer));
	assert_int_equal(attributes.type, cudaMemoryTypeDevice);
	assert_int_equal(attributes.device, 1);
	assert_ptr_equal(attributes.devicePointer, pointer);
	assert_runs(cudaFree(pointer));
	assert_fails(cudaSetDevice(2), cudaErrorInvalidDevice);
	assert_runs(cudaSetDevice(0));
	assert_runs(cudaGetDeviceProperties(&properties, 0));
	assert_string_equal(properties.name, "Simulated CUDA device");
	assert_int_equal(properties.major, 9);
	assert_int_equal(properties.totalGlobalMem, GIB);
	assert_runs(cudaPointerGetAttributes(&attributes, &device));
	assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
}

runtime_test(copies_move_bytes)
{
	char text[] = "through the device";
	char back[sizeof(text)] = "";
	char *device;
	char *host;
	cudaStream_t stream;

	assert_runs(cudaStreamCreate(&stream));
	assert_runs(cudaMalloc((void **)&device, 2 * sizeof(text)));
	assert_runs(cudaHostAlloc((void **)&host, sizeof(text), cudaHostAllocPortable));
	assert_runs(cudaMemcpy(device, text, sizeof(text), cudaMemcpyHostToDevice));
	assert_runs(cudaMemcpyAsync(device + sizeof(text), device, sizeof(text), cudaMemcpyDefault,
				    stream));
	assert_runs(cudaMemcpyAsync(host, device + sizeof(text), sizeof(text),
				    cudaMemcpyDeviceToHost, stream));
	assert_runs(cudaStreamSynchronize(stream));
	assert_string_equal(host, text);
	assert_runs(cudaMemset(device, 0, 7));
	assert_runs(cudaMemcpy(back, device, sizeof(text), cudaMemcpyDeviceToHost));
	assert_memory_equal(back, "\0\0\0\0\0\0\0 the device", sizeof(text));
	assert_fails(cudaMemcpy(back, device, 1, (enum cudaMemcpyKind)9),
		     cudaErrorInvalidMemcpyDirection);
	assert_runs(cudaFreeHost(host));
	assert_runs(cudaFree(device));
	assert_runs(cudaStreamDestroy(stream));
}

runtime_test(a_reset_begins_anew)
{
	void *pointer;
	void *again;

	assert_runs(cudaMalloc(&pointer, MIB));
	assert_runs(cudaDeviceReset());
	assert_int_equal(cudasim_live_allocations(0), 0);
	assert_runs(cudaMalloc(&again, MIB));
	assert_runs(cudaFree(again));
	assert_runs(cudaDeviceSynchronize());
}

runtime_test(a_context_of_the_programs_own_is_used)
{
	CUcontext ctx;
	CUcontext owner = NULL;
	void *pointer;

	assert_ok(cuCtxCreate(&ctx, NULL, 0, 1));
	assert_runs(cudaMalloc(&pointer, 64));
	assert_ok(
		cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, (CUdeviceptr)pointer));
	assert_ptr_equal(owner, ctx);
	assert_ok(cuCtxDestroy(ctx));
}

runtime_test(captures_and_graphs_work)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	void *pointer;
	void *refused;

	assert_runs(cudaMalloc(&pointer, 16));
	assert_runs(cudaMemset(pointer, 0, 16));
	assert_runs(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	assert_runs(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	assert_runs(cudaMemsetAsync(pointer, 9, 16, stream));
	assert_runs(cudaStreamEndCapture(stream, &graph));
	assert_runs(cudaGraphInstantiate(&exec, graph, 0));
	assert_runs(cudaGraphLaunch(exec, stream));
	assert_runs(cudaStreamSynchronize(stream));
	assert_int_equal(*(char *)pointer, 9);
	assert_runs(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	assert_fails(cudaMalloc(&refused, 1), cudaErrorStreamCaptureUnsupported);
	assert_fails(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
	assert_runs(cudaFree(pointer));
}

/* Programs that are linked with all that a runtime has start, and are told when they call it. */
runtime_test(what_the_device_has_not_says_so)
{
	static const char *const names[] = {
#define CALL(name, need, params, args) #name,
#include "tests/sim/runtime/absent.def"
#undef CALL
	};
	cudaTextureObject_t texture = 5;

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!dlsym(RTLD_DEFAULT, names[i]))
			fail_msg("%s", names[i]);
	assert_fails(cudaCreateTextureObject(&texture, NULL, NULL, NULL), cudaErrorNotSupported);
	assert_int_equal(texture, 5);
	assert_int_equal(cudaGetLastError(), cudaErrorNotSupported);
}

runtime_test(arrays_are_copied_in_streams)
{
	const struct cudaChannelFormatDesc bytes = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};
	struct cudaChannelFormatDesc desc;
	char out[2][8] = {"abcdefg", "hijklmn"};
	char in[2][8] = {"", ""};
	cudaStream_t stream;
	cudaArray_t array;

	assert_runs(cudaMallocArray(&array, &bytes, 16, 4, 0));
	assert_runs(cudaGetChannelDesc(&desc, array));
	assert_int_equal(desc.x, 8);
	assert_fails(cudaGetChannelDesc(NULL, array), cudaErrorInvalidValue);
	assert_runs(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	assert_runs(cudaMemcpy2DToArrayAsync(array, 3, 1, out, 8, 8, 2, cudaMemcpyHostToDevice,
					     stream));
	assert_runs(cudaMemcpy2DFromArrayAsync(in, 8, array, 3, 1, 8, 2, cudaMemcpyDeviceToHost,
					       stream));
	assert_runs(cudaStreamSynchronize(stream));
	assert_memory_equal(in, out, sizeof(out));
	assert_runs(cudaStreamDestroy(stream));
	assert_runs(cudaFreeArray(array));
}

runtime_test(a_capture_goes_on_behind_what_it_is_told)
{
	enum cudaStreamCaptureStatus status;
	cudaGraphNode_t before;
	cudaGraphNode_t nodes[2];
	cudaGraphNode_t found = NULL;
	cudaStream_t stream;
	cudaGraph_t graph;
	size_t count = 2;
	void *pointer;

	assert_runs(cudaMalloc(&pointer, 1));
	assert_runs(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	assert_runs(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	assert_runs(cudaStreamGetCaptureInfo(stream, &status, NULL, &graph, NULL, NULL, NULL));
	assert_runs(cudaGraphAddEmptyNode(&before, graph, NULL, 0));
	assert_runs(cudaStreamUpdateCaptureDependencies(stream, &before, NULL, 1,
							cudaStreamSetCaptureDependencies));
	assert_runs(cudaMemsetAsync(pointer, 1, 1, stream));
	assert_runs(cudaStreamEndCapture(stream, &graph));
	assert_runs(cudaGraphGetNodes(graph, nodes, &count));
	assert_int_equal(count, 2);
	assert_ptr_equal(nodes[0], before);
	count = 1;
	assert_runs(cudaGraphNodeGetDependencies(nodes[1], &found, NULL, &count));
	assert_int_equal(count, 1);
	assert_ptr_equal(found, before);
	assert_runs(cudaGraphDestroy(graph));
	assert_runs(cudaStreamDestroy(stream));
	assert_runs(cudaFree(pointer));
}

runtime_test(errors_have_names)
{
	assert_string_equal(cudaGetErrorName(cudaErrorMemoryAllocation),
			    "cudaErrorMemoryAllocation");
	assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
	assert_string_equal(cudaGetErrorName((cudaError_t)123456), "unrecognized error code");
}

int main(void)
{
	setenv("CUDASIM", "memory:1G,devices:2", 1);
	return cm_run_tests(NULL, NULL);
}
