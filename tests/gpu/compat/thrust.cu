/* SPDX-License-Identifier: MIT */
/* Thrust's algorithms, whose temporaries come and go inside the library's own headers. */
#include <cstdio>
#include <vector>

#include <thrust/device_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/unique.h>

#include "tests/gpu/kit/runtime.cuh"

enum { TURNS = 60, SIMULATED_TURNS = 6 };

static std::vector<int> some_numbers(size_t count, unsigned seed)
{
	std::vector<int> numbers(count);

	for (int &number : numbers) {
		seed = seed * 1664525u + 1013904223u;
		number = (int)(seed >> 12);
	}
	return numbers;
}

int main()
{
	const bool kernels = runtime_kernels_run();
	const int turns = tell_simulated() ? SIMULATED_TURNS : TURNS;
	uint64_t digest = 0;
	long long sum = 0;

	for (int turn = 0; turn < turns; turn++) {
		const std::vector<int> numbers = some_numbers(1000 + 9973 * (size_t)turn,
							      (unsigned)turn);
		thrust::device_vector<int> on_device(numbers.begin(), numbers.end());
		thrust::device_vector<int> sums(numbers.size());
		std::vector<int> back(numbers.size());

		thrust::sort(on_device.begin(), on_device.end());
		thrust::inclusive_scan(on_device.begin(), on_device.end(), sums.begin());
		sum += kernels ? thrust::reduce(on_device.begin(), on_device.end(), 0ll) : 0;
		thrust::copy(sums.begin(), sums.end(), back.begin());
		digest = tell_digest(digest, back.data(), kernels ? back.size() * sizeof(int) : 0);
		if (!kernels)
			continue;
		on_device.erase(thrust::unique(on_device.begin(), on_device.end()),
				on_device.end());
		digest = tell_digest(digest, &sum, sizeof(sum));
	}
	printf("kernels: %s\nturns: %d\nsum: %lld\ndigest: %016llx\n",
	       kernels ? "run" : "no effect", turns, sum, (unsigned long long)digest);
	library_leave_figures();
	return 0;
}
