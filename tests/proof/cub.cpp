/* SPDX-License-Identifier: MIT */
/*
 * CUB's caching allocator under random programs, and under the checker of the simulated driver: a
 * test of these instruments on an allocator that nobody here wrote.
 *
 * cub_proof SEED OPERATIONS THREADS slow|as-is
 *
 * Each thread has a stream and a few blocks. It asks for one, has a kernel fill it in its stream, and
 * gives it back: all that CUB's contract wants, since a block's work is in the stream that it was
 * asked for in. Says how many violations the checker found.
 *
 * DeviceFree() puts a block among the free ones, lets go of its lock, and only then records the event
 * that tells when the block is ready. The recording is slowed down here, as a busy machine may do.
 */
#include <cub/util_allocator.cuh>

#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "tests/sim/cudasim.h"

#define CUB_VERSION_KNOWN 300099 /* the last of which the race is known */

static cub::CachingDeviceAllocator *allocator;
static bool slow;

extern "C" cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	for (int i = 0; slow && i < 50; i++)
		sched_yield();
	return __real_cudaEventRecord(event, stream);
}

static unsigned draw(unsigned long long *state)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return unsigned(*state >> 33);
}

static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	std::exit(2);
}

/* What CUB asks the driver is the allocator's knowledge, not the program's. */
static void *get(size_t bytes, cudaStream_t stream)
{
	void *block = nullptr;
	cudaError_t error;

	cudasim_allocator_enter();
	/* It passes on that an event was not ready, which an earlier question was told. */
	do
		error = allocator->DeviceAllocate(&block, bytes, stream);
	while (error == cudaErrorNotReady);
	cudasim_allocator_leave();
	must(error, "DeviceAllocate");
	cudasim_handed_out(block, bytes, 0);
	return block;
}

static void put(void *block)
{
	cudasim_taken_back(block);
	cudasim_allocator_enter();
	/* As above. */
	(void)allocator->DeviceFree(block);
	cudasim_allocator_leave();
}

static void live(unsigned long long seed, int operations)
{
	unsigned long long state = seed;
	std::vector<std::pair<void *, size_t>> held;
	cudaStream_t stream;

	must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
	for (int i = 0; i < operations; i++) {
		if (held.size() < 4 && draw(&state) % 3) {
			size_t bytes = size_t(512) << draw(&state) % 3 * 3;

			held.emplace_back(get(bytes, stream), bytes);
		} else if (!held.empty()) {
			std::swap(held[draw(&state) % held.size()], held.back());
			must(cudaMemsetAsync(held.back().first, 1, held.back().second, stream),
			     "cudaMemsetAsync");
			put(held.back().first);
			held.pop_back();
		}
	}
	must(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	for (auto &block : held)
		put(block.first);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	const unsigned long long seed = std::strtoull(argv[1], nullptr, 10);
	const int operations = std::atoi(argv[2]), threads = std::atoi(argv[3]);
	std::vector<std::thread> hands;

	slow = !std::strcmp(argv[4], "slow");
	must(cudaSetDevice(0), "cudaSetDevice");
	must(cudaFree(nullptr), "cudaFree");
	allocator = new cub::CachingDeviceAllocator();
	for (int i = 0; i < threads; i++)
		hands.emplace_back(live, seed * 100 + i, operations);
	for (auto &hand : hands)
		hand.join();
	const unsigned long long found = cudasim_violations();

	std::printf("CUB %d: %d threads, %d operations, %llu violations\n", CUB_VERSION, threads,
		    threads * operations, static_cast<unsigned long long>(found));
	if (found) {
		char text[2000];

		cudasim_violation(0, text, sizeof(text));
		std::puts(text);
	}
	/* Alone nothing can go wrong. With others, and slowed down, it does with the versions known. */
	if (threads == 1)
		return found != 0;
	return slow && CUB_VERSION <= CUB_VERSION_KNOWN && !found;
}
