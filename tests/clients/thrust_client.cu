/* SPDX-License-Identifier: MIT */
/*
 * Thrust and CUB as programs use them: vectors and the temporaries of algorithms come and go with
 * every turn, all by the library's own cudaMalloc and cudaFree. What needs no kernel is checked
 * always, the rest where kernels run. At the end it holds until stdin ends, so that it can be
 * looked at while it holds nothing.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include <cub/device/device_radix_sort.cuh>
#include <thrust/copy.h>
#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>

static const int TURNS = 200;
static int wrong;

static void expect(bool right, const char *what)
{
	if (!right) {
		fprintf(stderr, "thrust_client: wrong: %s\n", what);
		wrong++;
	}
}

static std::vector<int> descending(size_t count)
{
	std::vector<int> values(count);

	std::iota(values.rbegin(), values.rend(), 0);
	return values;
}

static bool kernels_run()
{
	thrust::device_vector<int> filled(64, 7);

	return filled[63] == 7;
}

static void use_thrust(size_t count, bool kernels)
{
	const std::vector<int> values = descending(count);
	std::vector<int> back(count);
	thrust::device_vector<int> keys(values.begin(), values.end());
	thrust::device_vector<int> twin = keys;

	thrust::copy(keys.begin(), keys.end(), back.begin());
	expect(back == values, "what was copied in does not come out");
	thrust::sort(keys.begin(), keys.end());
	long long sum = thrust::reduce(twin.begin(), twin.end(), 0ll);
	if (!kernels)
		return;
	thrust::copy(keys.begin(), keys.end(), back.begin());
	expect(std::is_sorted(back.begin(), back.end()), "sort");
	expect(sum == (long long)count * (long long)(count - 1) / 2, "reduce");
}

static void use_cub(size_t count, bool kernels)
{
	const std::vector<int> values = descending(count);
	std::vector<int> back(count);
	thrust::device_vector<int> in(values.begin(), values.end());
	thrust::device_vector<int> out(count);
	int *keys_in = thrust::raw_pointer_cast(in.data());
	int *keys_out = thrust::raw_pointer_cast(out.data());
	void *temporary = NULL;
	size_t bytes = 0;

	cub::DeviceRadixSort::SortKeys(NULL, bytes, keys_in, keys_out, (int)count);
	expect(cudaMalloc(&temporary, bytes) == cudaSuccess, "cudaMalloc of CUB's temporaries");
	expect(cub::DeviceRadixSort::SortKeys(temporary, bytes, keys_in, keys_out, (int)count) ==
		       cudaSuccess,
	       "CUB's sort");
	expect(cudaFree(temporary) == cudaSuccess, "cudaFree of CUB's temporaries");
	if (!kernels)
		return;
	thrust::copy(out.begin(), out.end(), back.begin());
	expect(std::is_sorted(back.begin(), back.end()), "CUB's order");
}

int main()
{
	bool kernels = kernels_run();

	for (int turn = 0; turn < TURNS; turn++) {
		use_thrust(1000 + 997 * (size_t)(turn % 64), kernels);
		use_cub(1000 + 991 * (size_t)(turn % 32), kernels);
	}
	printf("wrong: %d\n", wrong);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return wrong != 0;
}
