/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdlib.h>

#include "tests/gpu/kit/counters.h"

static CUdevice device;
static CUcontext context;

/* Each thread may work in a context of its own. */
static __thread struct {
	CUfunction fill, copy, add, scale, spin, slow_fill, until, compare;
	CUdeviceptr counters; /* 64 bits for each thread */
} kernels;
static __typeof__(kernels) first_kernels;

const char *device_error(CUresult result)
{
	const char *name;

	return cuGetErrorName(result, &name) == CUDA_SUCCESS && name ? name : "unknown error";
}

void device_check(CUresult result, const char *call)
{
	if (result != CUDA_SUCCESS)
		tell_failure("%s: %s", call, device_error(result));
}

/* A driver loads a kernel when it is first launched; in a capture that is too late. */
static void warm_up(void)
{
	CUdeviceptr at = device_alloc(sizeof(uint32_t));

	device_fill(at, 1, 1, NULL);
	device_copy(at, at, 1, NULL);
	device_add(at, at, at, 1, NULL);
	device_scale(at, at, 1, 1, NULL);
	device_spin(0, NULL);
	device_slow_fill(at, 1, 1, 0, NULL);
	device_fill(at, 1, 1, NULL);
	device_until(at, NULL);
	(void)device_wrong(at, 1, 1, NULL);
	device_free(at);
}

void device_load_kernels(void)
{
	CUmodule module;

	CHECK(cuModuleLoad(&module, tell_simulated() ? KIT_KERNELS_SIM : KIT_KERNELS));
	CHECK(cuModuleGetFunction(&kernels.fill, module, "fill"));
	CHECK(cuModuleGetFunction(&kernels.copy, module, "copy"));
	CHECK(cuModuleGetFunction(&kernels.add, module, "add"));
	CHECK(cuModuleGetFunction(&kernels.scale, module, "scale"));
	CHECK(cuModuleGetFunction(&kernels.spin, module, "spin"));
	CHECK(cuModuleGetFunction(&kernels.slow_fill, module, "slow_fill"));
	CHECK(cuModuleGetFunction(&kernels.until, module, "until"));
	CHECK(cuModuleGetFunction(&kernels.compare, module, "compare"));
	CHECK(cuModuleGetGlobal(&kernels.counters, NULL, module, "counters"));
	warm_up();
}

void device_open(void)
{
	CUresult result = cuInit(0);

	if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_STUB_LIBRARY)
		tell_skipped("no CUDA device: %s", device_error(result));
	CHECK(result);
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	device_load_kernels();
	first_kernels = kernels;
}

CUdevice device_first(void)
{
	return device;
}

void device_attach(void)
{
	CHECK(cuCtxSetCurrent(context));
	kernels = first_kernels;
}

CUstream device_stream(void)
{
	CUstream stream;

	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	return stream;
}

CUdeviceptr device_alloc(size_t bytes)
{
	CUdeviceptr at;

	CHECK(cuMemAlloc(&at, bytes));
	return at;
}

void device_free(CUdeviceptr at)
{
	CHECK(cuMemFree(at));
}

/* Threads of 256 and no more blocks than a card has room for: the kernels stride over the rest. */
static unsigned blocks_for(size_t count)
{
	size_t blocks = (count + 255) / 256;

	return (unsigned)(blocks < 2048 ? blocks : 2048);
}

static void launch(CUfunction kernel, size_t count, CUstream stream, void **params)
{
	CHECK(cuLaunchKernel(kernel, blocks_for(count), 1, 1, count == 1 ? 1 : 256, 1, 1, 0, stream,
			     params, NULL));
}

void device_fill(CUdeviceptr at, uint32_t value, size_t count, CUstream stream)
{
	uint64_t words = count;
	void *params[] = {&at, &value, &words};

	launch(kernels.fill, count, stream, params);
}

void device_copy(CUdeviceptr to, CUdeviceptr from, size_t count, CUstream stream)
{
	uint64_t bytes = count * sizeof(uint32_t);
	void *params[] = {&to, &from, &bytes};

	launch(kernels.copy, count, stream, params);
}

void device_add(CUdeviceptr to, CUdeviceptr a, CUdeviceptr b, size_t count, CUstream stream)
{
	uint64_t words = count;
	void *params[] = {&to, &a, &b, &words};

	launch(kernels.add, count, stream, params);
}

void device_scale(CUdeviceptr to, CUdeviceptr from, float factor, size_t count, CUstream stream)
{
	uint64_t words = count;
	void *params[] = {&to, &from, &factor, &words};

	launch(kernels.scale, count, stream, params);
}

void device_spin(uint64_t ns, CUstream stream)
{
	void *params[] = {&ns};

	launch(kernels.spin, 1, stream, params);
}

void device_slow_fill(CUdeviceptr at, uint32_t value, size_t count, uint64_t ns, CUstream stream)
{
	uint64_t words = count;
	void *params[] = {&at, &value, &words, &ns};

	launch(kernels.slow_fill, count, stream, params);
}

void device_early_fill(CUdeviceptr at, uint32_t value, size_t count, CUstream stream)
{
	CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
	CUlaunchConfig config = {.gridDimX = blocks_for(count),
				 .gridDimY = 1,
				 .gridDimZ = 1,
				 .blockDimX = 256,
				 .blockDimY = 1,
				 .blockDimZ = 1,
				 .hStream = stream,
				 .attrs = &early,
				 .numAttrs = 1};
	uint64_t words = count;
	void *params[] = {&at, &value, &words};

	early.value.programmaticStreamSerializationAllowed = 1;
	CHECK(cuLaunchKernelEx(&config, kernels.fill, params, NULL));
}

void device_until(CUdeviceptr word, CUstream stream)
{
	void *params[] = {&word};

	launch(kernels.until, 1, stream, params);
}

uint32_t device_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33);
}

/* What the simulated device can't: it fills and copies, but does not compare. */
static uint64_t compare_on_host(CUdeviceptr at, uint32_t value, size_t count)
{
	size_t chunk = count < MIB ? count : MIB, done, i;
	uint32_t *words = malloc(chunk * sizeof(*words));
	uint64_t wrong = 0;

	if (!words)
		tell_failure("no memory");
	for (done = 0; done < count; done += chunk) {
		if (chunk > count - done)
			chunk = count - done;
		CHECK(cuMemcpyDtoH(words, at + done * sizeof(*words), chunk * sizeof(*words)));
		for (i = 0; i < chunk; i++)
			wrong += words[i] != value;
	}
	free(words);
	return wrong;
}

/* Counters of the context's own, as pinned memory would go with the context that made it. */
static CUdeviceptr counter_of_thread(void)
{
	static _Atomic unsigned threads;
	static __thread unsigned number;

	if (!number)
		number = ++threads;
	if (number > KIT_COUNTERS)
		tell_failure("more than %d threads", KIT_COUNTERS);
	return kernels.counters + (number - 1) * sizeof(uint64_t);
}

uint64_t device_wrong(CUdeviceptr at, uint32_t value, size_t count, CUstream stream)
{
	CUdeviceptr counter;
	uint64_t words = count, wrong;
	void *params[] = {&at, &value, &words, &counter};

	if (tell_simulated()) {
		CHECK(cuStreamSynchronize(stream));
		return compare_on_host(at, value, count);
	}
	counter = counter_of_thread();
	CHECK(cuMemsetD32Async(counter, 0, sizeof(wrong) / sizeof(uint32_t), stream));
	launch(kernels.compare, count, stream, params);
	CHECK(cuMemcpyDtoHAsync(&wrong, counter, sizeof(wrong), stream));
	CHECK(cuStreamSynchronize(stream));
	return wrong;
}
