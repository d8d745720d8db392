/* SPDX-License-Identifier: MIT */
/* A kernel compiled at run time, loaded by the driver's API, over blocks of the runtime's. */
#include <cstdio>
#include <string>
#include <vector>

#include <cuda.h>
#include <nvrtc.h>

#include "tests/gpu/kit/runtime.cuh"

enum { COUNT = 1 << 16, TURNS = 20 };

#define CHECK_RTC(call)                                                             \
	do {                                                                        \
		nvrtcResult status = (call);                                        \
		if (status != NVRTC_SUCCESS)                                        \
			tell_failure("%s: %s", #call, nvrtcGetErrorString(status)); \
	} while (0)
#define CHECK_DRIVER(call)                                                \
	do {                                                              \
		CUresult status = (call);                                 \
		if (status != CUDA_SUCCESS)                               \
			tell_failure("%s: error %d", #call, (int)status); \
	} while (0)

static const char source[] =
	"extern \"C\" __global__ void saxpy(float a, const float *x, float *y, "
	"unsigned count)\n"
	"{\n"
	"	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
	"	if (i < count)\n"
	"		y[i] += a * x[i];\n"
	"}\n";

static std::vector<char> compile()
{
	int major = 9, minor = 0;
	nvrtcProgram program;
	size_t bytes;

	CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	CHECK(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0));
	const std::string arch = "--gpu-architecture=sm_" + std::to_string(10 * major + minor);
	const char *options[] = {arch.c_str()};
	CHECK_RTC(nvrtcCreateProgram(&program, source, "saxpy.cu", 0, NULL, NULL));
	CHECK_RTC(nvrtcCompileProgram(program, 1, options));
	CHECK_RTC(nvrtcGetCUBINSize(program, &bytes));
	std::vector<char> image(bytes);
	CHECK_RTC(nvrtcGetCUBIN(program, image.data()));
	CHECK_RTC(nvrtcDestroyProgram(&program));
	return image;
}

int main()
{
	const bool kernels = runtime_kernels_run();
	std::vector<float> host(COUNT);
	uint64_t digest = 0;
	CUfunction function;
	CUmodule module;

	const std::vector<char> image = compile();
	CHECK_DRIVER(cuModuleLoadData(&module, image.data()));
	CHECK_DRIVER(cuModuleGetFunction(&function, module, "saxpy"));
	for (int turn = 0; turn < TURNS; turn++) {
		float a = (float)turn;
		unsigned count = COUNT;
		float *x, *y;
		void *params[] = {&a, &x, &y, &count};

		for (unsigned i = 0; i < COUNT; i++)
			host[i] = (float)i;
		CHECK(cudaMalloc(&x, COUNT * sizeof(float)));
		CHECK(cudaMalloc(&y, COUNT * sizeof(float)));
		CHECK(cudaMemcpy(x, host.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
		CHECK(cudaMemcpy(y, host.data(), COUNT * sizeof(float), cudaMemcpyHostToDevice));
		CHECK_DRIVER(cuLaunchKernel(function, COUNT / 256, 1, 1, 256, 1, 1, 0, NULL, params,
					    NULL));
		CHECK(cudaFree(x));
		CHECK(cudaMemcpy(host.data(), y, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
		CHECK(cudaFree(y));
		digest = tell_digest(digest, host.data(), COUNT * sizeof(float));
	}
	CHECK_DRIVER(cuModuleUnload(module));
	printf("kernels: %s\nturns: %d\ndigest: %016llx\n", kernels ? "run" : "no effect", TURNS,
	       (unsigned long long)digest);
	library_leave_figures();
	return 0;
}
