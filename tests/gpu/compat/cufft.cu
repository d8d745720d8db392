/* SPDX-License-Identifier: MIT */
/* cuFFT: plans that come and go with their work areas, there and back again. */
#include <cstdio>
#include <vector>

#include <cufft.h>

#include "tests/gpu/kit/runtime.cuh"

enum { TURNS = 40 };

#define CHECK_FFT(call)                                                   \
	do {                                                              \
		cufftResult status = (call);                              \
		if (status != CUFFT_SUCCESS)                              \
			tell_failure("%s: error %d", #call, (int)status); \
	} while (0)

static uint64_t transform(int n, uint64_t digest)
{
	std::vector<cufftComplex> host((size_t)n);
	size_t bytes = host.size() * sizeof(host[0]);
	cufftComplex *at;
	cufftHandle plan;

	for (int i = 0; i < n; i++)
		host[(size_t)i] = {(float)(i % 17), (float)(i % 5)};
	CHECK(cudaMalloc(&at, bytes));
	CHECK(cudaMemcpy(at, host.data(), bytes, cudaMemcpyHostToDevice));
	CHECK_FFT(cufftPlan1d(&plan, n, CUFFT_C2C, 1));
	CHECK_FFT(cufftExecC2C(plan, at, at, CUFFT_FORWARD));
	CHECK_FFT(cufftExecC2C(plan, at, at, CUFFT_INVERSE));
	CHECK_FFT(cufftDestroy(plan));
	CHECK(cudaMemcpy(host.data(), at, bytes, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(at));
	return tell_digest(digest, host.data(), bytes);
}

int main()
{
	uint64_t digest = 0;

	if (tell_simulated())
		tell_skipped("cuFFT carries NVIDIA's own runtime, which runs on cards only");
	for (int turn = 0; turn < TURNS; turn++)
		for (int n : {64, 1000, 65536, 1 << 20})
			digest = transform(n + 2 * turn, digest);
	printf("turns: %d\ndigest: %016llx\n", TURNS, (unsigned long long)digest);
	library_leave_figures();
	return 0;
}
