/* SPDX-License-Identifier: MIT */
/*
 * The runtime as programs use it: memory of every kind in an inner loop with kernels, errors and
 * the last error, and a device that is reset. Built with the static and the shared runtime, and
 * with a default stream for each thread.
 */
#include <cstdio>
#include <thread>
#include <vector>

#include "tests/gpu/kit/runtime.cuh"

enum { TURNS = 1000, SIMULATED_TURNS = 100, STREAMS = 8, THREADS = 4 };

static bool kernels;
static long wrong[THREADS + 1];

static __global__ void axpy(float *to, const float *x, float a, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		to[i] += a * x[i];
}

static __global__ void set(float *to, float value, size_t count)
{
	for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
	     i += (size_t)gridDim.x * blockDim.x)
		to[i] = value;
}

static void turn(int i, cudaStream_t stream, float *host, long *wrong)
{
	size_t count = 1 + (size_t)(i * 7919) % 100000;
	float *x, *y, *temporary;

	CHECK(cudaMalloc(&x, count * sizeof(float)));
	CHECK(cudaMalloc(&y, count * sizeof(float)));
	set<<<64, 256, 0, stream>>>(x, (float)i, count);
	set<<<64, 256, 0, stream>>>(y, 1, count);
	CHECK(cudaMallocAsync(&temporary, count * sizeof(float), stream));
	set<<<64, 256, 0, stream>>>(temporary, 5, count);
	axpy<<<64, 256, 0, stream>>>(y, x, 2, count);
	axpy<<<64, 256, 0, stream>>>(y, temporary, 1, count);
	CHECK(cudaFreeAsync(temporary, stream));
	CHECK(cudaFree(x));
	CHECK(cudaMemcpyAsync(host, y + count - 1, sizeof(*host), cudaMemcpyDeviceToHost, stream));
	CHECK(cudaFree(y));
	CHECK(cudaStreamSynchronize(stream));
	*wrong += kernels && *host != 2 * (float)i + 1 + 5;
}

static void loop(int turns)
{
	cudaStream_t streams[STREAMS];
	float *host;

	for (cudaStream_t &stream : streams)
		CHECK(cudaStreamCreate(&stream));
	CHECK(cudaMallocHost(&host, sizeof(*host)));
	for (int i = 0; i < turns; i++)
		turn(i, streams[i % STREAMS], host, &wrong[0]);
	for (int i = 0; i < turns; i++)
		turn(i, i % 2 ? cudaStreamPerThread : cudaStreamLegacy, host, &wrong[0]);
	CHECK(cudaFreeHost(host));
	for (cudaStream_t &stream : streams)
		CHECK(cudaStreamDestroy(stream));
	printf("turns: %d\n", 2 * turns);
}

static void threads(int turns)
{
	std::vector<std::thread> running;

	for (int t = 1; t <= THREADS; t++)
		running.emplace_back([=] {
			float *host;

			CHECK(cudaHostAlloc(&host, sizeof(*host), cudaHostAllocPortable));
			for (int i = 0; i < turns; i++)
				turn(i, 0, host, &wrong[t]);
			CHECK(cudaFreeHost(host));
		});
	for (std::thread &thread : running)
		thread.join();
	printf("threads: %d\n", THREADS);
}

static void tell(const char *what, cudaError_t result)
{
	printf("%s: %s\n", what, cudaGetErrorName(result));
}

static void errors()
{
	size_t left, total;
	void *at = NULL;

	CHECK(cudaMemGetInfo(&left, &total));
	tell("cudaMalloc of nothing", cudaMalloc(&at, 0));
	printf("and its address: %d\n", at != NULL);
	tell("cudaFree of it", cudaFree(at));
	tell("cudaMalloc of too much", cudaMalloc(&at, total + 1));
	tell("the last error", cudaPeekAtLastError());
	tell("the last error, taken", cudaGetLastError());
	tell("and then", cudaGetLastError());
	tell("cudaMalloc after that", cudaMalloc(&at, 1 << 20));
	tell("cudaFree", cudaFree(at));
	tell("cudaFree again", cudaFree(at));
	tell("the last error, taken", cudaGetLastError());
	tell("cudaFree of null", cudaFree(NULL));
	tell("cudaFreeHost of null", cudaFreeHost(NULL));
}

static void other_kinds()
{
	void *at;
	size_t pitch;
	cudaArray_t array;
	cudaChannelFormatDesc format = {32, 0, 0, 0, cudaChannelFormatKindFloat};
	struct cudaPointerAttributes attributes;

	CHECK(cudaMallocPitch(&at, &pitch, 1000, 100));
	printf("pitch of 1000: %zu\n", pitch);
	CHECK(cudaFree(at));
	CHECK(cudaMallocManaged(&at, 1 << 20));
	CHECK(cudaPointerGetAttributes(&attributes, at));
	printf("managed: %d\n", (int)attributes.type);
	CHECK(cudaFree(at));
	CHECK(cudaMallocArray(&array, &format, 64, 64));
	CHECK(cudaFreeArray(array));
	CHECK(cudaMalloc(&at, 1 << 20));
	CHECK(cudaPointerGetAttributes(&attributes, at));
	printf("device memory: %d, of device %d\n", (int)attributes.type, attributes.device);
	CHECK(cudaFree(at));
}

int main()
{
	int turns = tell_simulated() ? SIMULATED_TURNS : TURNS;

	kernels = runtime_kernels_run();
	printf("kernels: %s\n", kernels ? "run" : "no effect");
	loop(turns);
	threads(turns / 4);
	errors();
	other_kinds();
	library_leave_figures();
	CHECK(cudaDeviceReset());
	loop(turns / 10);
	long all = 0;
	for (long one : wrong)
		all += one;
	printf("wrong: %ld\n", all);
	return all != 0;
}
