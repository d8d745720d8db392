/* SPDX-License-Identifier: MIT */
/*
 * A CUDA program in C++ with debug information: a template, a namespace without a name, and an
 * inlined member function. Ends by SIGKILL from itself, so that its region stays.
 */
#include <csignal>
#include <cstdlib>
#include <unistd.h>

#include <cuda_runtime_api.h>

namespace solver {

template <typename T>
class Grid {
public:
	[[gnu::noinline]] explicit Grid(std::size_t cells)
	{
		reserve(cells * sizeof(T));
	}

private:
	[[gnu::always_inline]] inline void reserve(std::size_t bytes)
	{
		if (cudaMalloc(&memory, bytes) != cudaSuccess)
			std::exit(1);
	}

	void *memory = nullptr;
};

} // namespace solver

namespace {

[[gnu::noinline]] void refine(const solver::Grid<double> &, std::size_t cells)
{
	solver::Grid<float> finer(8 * cells);
	__asm__ __volatile__("" : : "r"(&finer) : "memory");
}

} // namespace

int main()
{
	const solver::Grid<double> grid(1 << 17);

	refine(grid, 1 << 17);
	(void)kill(getpid(), SIGKILL);
	return 1;
}
