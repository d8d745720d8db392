/* SPDX-License-Identifier: MIT */
/*
 * CUB's caching allocator under the random programs of program.h, and under the checker of the
 * simulated driver: a test of these instruments on an allocator that nobody here wrote.
 *
 * cub_proof FIRST_SEED PROGRAMS OPERATIONS in-order|untidy|as-is|slow
 *
 * Blocks are had of CUB for the stream that their first work is in, and before one is given back
 * that stream is put behind the others that it was used in: all that CUB's contract wants.
 * Operations that CUB has nothing to do with (captures, peers, pinned memory, resets) do nothing.
 * In order, one thread does all; else each of three does its own, with blocks of its own and
 * streams that they share. Says how many violations the checker found.
 *
 * DeviceFree() puts a block among the free ones, lets go of its lock, and only then records the
 * event that tells when the block is ready. `slow`: the recording takes its time, as on a busy
 * machine.
 *
 * DeviceAllocate() leaves the answer that an event is not ready behind as the thread's last error,
 * and DeviceFree() takes that for a failure of its own, after it has put the block among the free
 * ones and before it records the event. `untidy`: in order, and the program does not clear it
 * between.
 */
#include <cub/util_allocator.cuh>

#include <sched.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

extern "C" {
#include "tests/proof/program.h"
}
#include "tests/sim/cudasim.h"

#define CUB_VERSION_KNOWN 300099 /* the last of which both are known */

static cub::CachingDeviceAllocator *allocator;
static bool slow;
static bool tidy = true;         /* last errors are cleared */
static thread_local bool inside; /* of CUB */

extern "C" cudaError_t __real_cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
extern "C" cudaError_t __wrap_cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	for (int i = 0; slow && inside && i < 50; i++)
		sched_yield();
	return __real_cudaEventRecord(event, stream);
}

/* Where CUB is known to go wrong, work on memory that is gone is a way of it; in order there is
 * none. */
static void must(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
	std::_Exit(error == cudaErrorIllegalAddress && (slow || !tidy) ? 0 : 2);
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
	cudasim_allocated(block, bytes, 0);
	return block;
}

static void put(int device, void *block)
{
	cudasim_freed(block);
	cudasim_allocator_enter();
	if (tidy)
		(void)cudaGetLastError();
	inside = true;
	/* As above. */
	(void)allocator->DeviceFree(device, block);
	inside = false;
	cudasim_allocator_leave();
}

enum { DEVICES = 2, STREAMS = PROOF_STREAMS };

struct slot {
	void *at;
	size_t bytes;
	int device;
	unsigned home, stream; /* that it was asked for in; where its work is now */
};

static struct slot slots[PROOF_SLOTS];
static cudaStream_t streams[DEVICES][STREAMS];

/* A thread of the program. */
struct hand {
	unsigned number;
	bool alone; /* it does all threads' operations */
	int device;
	cudaEvent_t event[DEVICES];
};

static slot &slot_of(const hand &self, uint64_t arg)
{
	unsigned i = unsigned(arg % PROOF_SLOTS);

	return slots[self.alone ? i : i / PROOF_THREADS * PROOF_THREADS + self.number];
}

/* Work of `to` comes after what is in `from` now. */
static void order(const hand &self, int from_device, unsigned from, int to_device, unsigned to)
{
	if (from_device == to_device && from == to)
		return;
	must(cudaSetDevice(from_device), "cudaSetDevice");
	must(cudaEventRecord(self.event[from_device], streams[from_device][from]),
	     "cudaEventRecord");
	must(cudaSetDevice(to_device), "cudaSetDevice");
	must(cudaStreamWaitEvent(streams[to_device][to], self.event[from_device], 0),
	     "cudaStreamWaitEvent");
	must(cudaSetDevice(self.device), "cudaSetDevice");
}

static void do_alloc(hand &self, const uint64_t *arg)
{
	slot &block = slot_of(self, arg[0]);

	if (block.at)
		return;
	block.bytes = size_t(arg[1] % (1u << 20)) + 1;
	block.device = self.device;
	block.home = block.stream = unsigned(arg[2] % STREAMS);
	block.at = get(block.bytes, streams[block.device][block.home]);
}

static void do_free(hand &self, const uint64_t *arg)
{
	slot &block = slot_of(self, arg[0]);

	if (!block.at)
		return;
	order(self, block.device, block.stream, block.device, block.home);
	put(block.device, block.at);
	block.at = nullptr;
}

static void do_touch(hand &self, const uint64_t *arg)
{
	const slot &block = slot_of(self, arg[0]);

	if (!block.at)
		return;
	must(cudaSetDevice(block.device), "cudaSetDevice");
	must(cudaMemsetAsync(block.at, 1, block.bytes, streams[block.device][block.stream]),
	     "cudaMemsetAsync");
	must(cudaSetDevice(self.device), "cudaSetDevice");
}

static void do_copy(hand &self, const uint64_t *arg)
{
	const slot &to = slot_of(self, arg[0]), &from = slot_of(self, arg[1]);

	if (!to.at || !from.at || &to == &from || to.device != from.device)
		return;
	order(self, from.device, from.stream, to.device, to.stream);
	must(cudaSetDevice(to.device), "cudaSetDevice");
	must(cudaMemcpyAsync(to.at, from.at, std::min(to.bytes, from.bytes),
			     cudaMemcpyDeviceToDevice, streams[to.device][to.stream]),
	     "cudaMemcpyAsync");
	order(self, to.device, to.stream, from.device, from.stream);
	must(cudaSetDevice(self.device), "cudaSetDevice");
}

static void do_move(hand &self, const uint64_t *arg)
{
	slot &block = slot_of(self, arg[0]);
	const unsigned to = unsigned(arg[1] % STREAMS);

	if (!block.at)
		return;
	order(self, block.device, block.stream, block.device, to);
	block.stream = to;
}

static void do_one(hand &self, const proof_op &op)
{
	switch (op.kind) {
	case PROOF_OP_alloc:
		return do_alloc(self, op.arg);
	case PROOF_OP_free:
		return do_free(self, op.arg);
	case PROOF_OP_touch:
		return do_touch(self, op.arg);
	case PROOF_OP_copy:
		return do_copy(self, op.arg);
	case PROOF_OP_move:
		return do_move(self, op.arg);
	case PROOF_OP_sync:
		return must(cudaStreamSynchronize(streams[self.device][op.arg[1] % STREAMS]),
			    "cudaStreamSynchronize");
	case PROOF_OP_finish:
		return must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	case PROOF_OP_pass:
		return cudasim_advance(op.arg[0]);
	case PROOF_OP_context:
		self.device = int(op.arg[0] % DEVICES);
		return must(cudaSetDevice(self.device), "cudaSetDevice");
	case PROOF_OP_trim:
		if (!self.alone)
			return;
		cudasim_allocator_enter();
		must(allocator->FreeAllCached(), "FreeAllCached");
		return cudasim_allocator_leave();
	default:
		return;
	}
}

static void live(const std::vector<proof_op> &ops, unsigned number, bool alone)
{
	hand self = {number, alone, 0, {}};

	for (int device = 0; device < DEVICES; device++) {
		must(cudaSetDevice(device), "cudaSetDevice");
		must(cudaEventCreateWithFlags(&self.event[device], cudaEventDisableTiming),
		     "cudaEventCreate");
	}
	must(cudaSetDevice(0), "cudaSetDevice");
	for (const proof_op &op : ops)
		if (alone || op.thread == number)
			do_one(self, op);
}

/* One after the other in one process: what one leaves in the cache the next one is given. */
static void play(unsigned long long seed, size_t operations, bool alone)
{
	std::vector<proof_op> ops(operations);
	std::vector<std::thread> hands;
	hand last = {0, true, 0, {}};
	proof_run run = {};

	run.count = operations;
	proof_generate(seed, ops.data(), &run);
	for (unsigned i = 0; i < (alone ? 1 : PROOF_THREADS); i++)
		hands.emplace_back(live, std::cref(ops), i, alone);
	for (auto &hand : hands)
		hand.join();
	for (int device = 0; device < DEVICES; device++) {
		must(cudaSetDevice(device), "cudaSetDevice");
		must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	}
	must(cudaSetDevice(0), "cudaSetDevice");
	for (uint64_t i = 0; i < PROOF_SLOTS; i++) {
		slots[i].stream = slots[i].home;
		do_free(last, &i);
	}
}

static void make_streams()
{
	for (int device = 0; device < DEVICES; device++) {
		must(cudaSetDevice(device), "cudaSetDevice");
		must(cudaFree(nullptr), "cudaFree");
		for (unsigned i = 1; i < STREAMS; i++)
			must(cudaStreamCreateWithFlags(&streams[device][i],
						       i == 2 ? cudaStreamDefault
							      : cudaStreamNonBlocking),
			     "cudaStreamCreate");
	}
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	const unsigned long long seed = std::strtoull(argv[1], nullptr, 10);
	const unsigned long long programs = std::strtoull(argv[2], nullptr, 10);
	const size_t operations = std::strtoull(argv[3], nullptr, 10);
	const bool alone = !std::strcmp(argv[4], "in-order") || !std::strcmp(argv[4], "untidy");

	tidy = std::strcmp(argv[4], "untidy") != 0;
	slow = !std::strcmp(argv[4], "slow");
	make_streams();
	allocator = new cub::CachingDeviceAllocator();
	for (unsigned long long i = 0; i < programs; i++)
		play(seed + i, operations, alone);
	const unsigned long long found = cudasim_violations();

	std::printf("CUB %d: %llu programs, %llu operations, %s: %llu violations\n", CUB_VERSION,
		    programs, programs * operations, argv[4], found);
	if (found) {
		char text[2000];

		cudasim_violation(0, text, sizeof(text));
		std::puts(text);
	}
	/* In order nothing can go wrong; untidily or slowed down it does, with the versions
	 * known. */
	if (alone && tidy)
		return found != 0;
	return (slow || !tidy) && CUB_VERSION <= CUB_VERSION_KNOWN && !found;
}
