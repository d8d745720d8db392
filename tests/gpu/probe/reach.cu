/* SPDX-License-Identifier: MIT */
/*
 * Does the runtime, as it is linked into this program, arrive at the library? Built with the static
 * runtime and with the shared one. Under the preload every request must be counted once.
 */
#include <cstdio>

#include "tests/gpu/kit/runtime.cuh"

enum { BLOCKS = 100 };

static int64_t device_requests()
{
	return library_device_figure("allocation.all.allocated");
}

static int64_t host_requests()
{
	return library_host_figure("active_requests.allocated");
}

/* Requests that the library counted while the function made BLOCKS of them. */
static bool arrives(const char *name, int64_t (*count)(), void (*request)())
{
	int64_t before = count(), after;

	request();
	after = count();
	tell_fact("requests that arrive", (double)(after - before), "requests", "%s, of %d", name,
		  BLOCKS);
	return after - before == BLOCKS;
}

static void use_malloc()
{
	void *at[BLOCKS];

	for (int i = 0; i < BLOCKS; i++)
		CHECK(cudaMalloc(&at[i], 1000 * (size_t)(i + 1)));
	for (int i = 0; i < BLOCKS; i++)
		CHECK(cudaFree(at[i]));
}

static void use_malloc_host()
{
	for (int i = 0; i < BLOCKS; i++) {
		void *at;

		CHECK(cudaMallocHost(&at, 1000 * (size_t)(i + 1)));
		CHECK(cudaFreeHost(at));
	}
}

static void use_host_alloc()
{
	for (int i = 0; i < BLOCKS; i++) {
		void *at;

		CHECK(cudaHostAlloc(&at, 1000 * (size_t)(i + 1), cudaHostAllocMapped));
		CHECK(cudaFreeHost(at));
	}
}

int main()
{
	int version = 0;
	void *first;
	bool all;

	CHECK(cudaRuntimeGetVersion(&version));
	tell_fact("version", version, "", "runtime");
	CHECK(cudaMalloc(&first, 100));
	CHECK(cudaFree(first));
	CHECK(cudaMallocHost(&first, 100));
	CHECK(cudaFreeHost(first));
	if (!library_is_here()) {
		tell_text("the library", "is not here", "runtime");
		return 0;
	}
	all = arrives("cudaMalloc", device_requests, use_malloc);
	all &= arrives("cudaMallocHost", host_requests, use_malloc_host);
	all &= arrives("cudaHostAlloc", host_requests, use_host_alloc);
	library_leave_figures();
	return all ? 0 : 1;
}
