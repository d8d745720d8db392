/* SPDX-License-Identifier: MIT */
/*
 * cuBLAS, which carries a runtime of its own: handles that come and go with their workspaces, and
 * products of many sizes over blocks that are allocated for each.
 */
#include <cstdio>
#include <vector>

#include <cublas_v2.h>

#include "tests/gpu/kit/runtime.cuh"

enum { TURNS = 40 };

#define CHECK_BLAS(call)                                                            \
	do {                                                                        \
		cublasStatus_t status = (call);                                     \
		if (status != CUBLAS_STATUS_SUCCESS)                                \
			tell_failure("%s: %s", #call, cublasGetStatusName(status)); \
	} while (0)

static uint64_t product(cublasHandle_t handle, int n, uint64_t digest)
{
	size_t bytes = (size_t)n * (size_t)n * sizeof(float);
	std::vector<float> host((size_t)n * (size_t)n);
	const float one = 1, zero = 0;
	float *a, *b, *c;

	for (size_t i = 0; i < host.size(); i++)
		host[i] = (float)((int)(i * 7 % 13) - 6);
	CHECK(cudaMalloc(&a, bytes));
	CHECK(cudaMalloc(&b, bytes));
	CHECK(cudaMalloc(&c, bytes));
	CHECK(cudaMemcpy(a, host.data(), bytes, cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(b, host.data(), bytes, cudaMemcpyHostToDevice));
	CHECK_BLAS(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, a, n, b, n, &zero,
			       c, n));
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaMemcpy(host.data(), c, bytes, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(c));
	return tell_digest(digest, host.data(), bytes);
}

int main()
{
	uint64_t digest = 0;

	if (tell_simulated())
		tell_skipped("cuBLAS carries NVIDIA's own runtime, which runs on cards only");
	for (int turn = 0; turn < TURNS; turn++) {
		cublasHandle_t handle;

		CHECK_BLAS(cublasCreate(&handle));
		for (int n : {16, 100, 257, 1024})
			digest = product(handle, n + turn, digest);
		CHECK_BLAS(cublasDestroy(handle));
	}
	printf("turns: %d\ndigest: %016llx\n", TURNS, (unsigned long long)digest);
	library_leave_figures();
	return 0;
}
