/* SPDX-License-Identifier: MIT */
#include "measure.h"

#include <pthread.h>
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { PAIRS = 2000, WARM = 20, TURNS = 300, THREADS_MOST = 16 };

/* Where a pair takes milliseconds fewer of them must do. */
#define BUDGET_NS (150 * UINT64_C(1000000))
#define KERNEL_NS UINT64_C(20000)

/* One after the other, each timed. */
static void measure_pairs(const struct measured *what, size_t bytes)
{
	static uint64_t ns[PAIRS];
	CUstream stream = device_stream();
	uint64_t end = tell_now() + BUDGET_NS;
	size_t i, done = 0;

	for (i = 0; i < WARM; i++)
		what->free(what->alloc(bytes, stream), stream);
	while (done < PAIRS && tell_now() < end) {
		uint64_t from = tell_now();

		what->free(what->alloc(bytes, stream), stream);
		ns[done++] = tell_now() - from;
	}
	tell_times("pair", ns, done, "%s, %zu KiB", what->name, bytes / KIB);
	CHECK(cuStreamDestroy(stream));
}

/* From the first launch until the device is done. */
static uint64_t time_of_kernels(CUstream stream)
{
	uint64_t from;
	int i;

	CHECK(cuCtxSynchronize());
	from = tell_now();
	for (i = 0; i < TURNS; i++)
		device_spin(KERNEL_NS, stream);
	CHECK(cuCtxSynchronize());
	return tell_now() - from;
}

/*
 * The loop of a program with temporaries: allocate, launch a kernel on the block, free. What the
 * host spends, and how long the device has nothing to do: what the loop takes beyond its kernels.
 */
static void measure_turns(const struct measured *what, size_t bytes)
{
	static uint64_t ns[TURNS];
	CUstream stream = device_stream();
	uint64_t from, alone = time_of_kernels(stream);
	size_t i;

	what->free(what->alloc(bytes, stream), stream);
	CHECK(cuCtxSynchronize());
	from = tell_now();
	for (i = 0; i < TURNS; i++) {
		uint64_t begin = tell_now();
		CUdeviceptr at = what->alloc(bytes, stream);

		device_spin(KERNEL_NS, stream);
		what->free(at, stream);
		ns[i] = tell_now() - begin;
	}
	CHECK(cuCtxSynchronize());
	from = tell_now() - from;
	tell_times("turn, host", ns, TURNS, "%s, %zu KiB, kernel of 20 us", what->name,
		   bytes / KIB);
	tell_fact("turn, device idle", ((double)from - (double)alone) / TURNS, "ns",
		  "%s, %zu KiB, kernel of 20 us", what->name, bytes / KIB);
	CHECK(cuStreamDestroy(stream));
}

struct worker {
	const struct measured *what;
	pthread_barrier_t *start;
	pthread_t thread;
	uint64_t pairs;
	uint64_t ns;
};

static void *work(void *data)
{
	static const size_t sizes[] = {512,     4 * KIB, 64 * KIB, 512 * KIB,
				       2 * MIB, 300,     20 * KIB, 9 * KIB};
	struct worker *worker = data;
	CUstream stream;
	uint64_t from, end;

	device_attach();
	stream = device_stream();
	(void)pthread_barrier_wait(worker->start);
	from = tell_now();
	end = from + BUDGET_NS;
	while (worker->pairs < PAIRS && tell_now() < end) {
		size_t bytes = sizes[worker->pairs++ % 8];

		worker->what->free(worker->what->alloc(bytes, stream), stream);
	}
	worker->ns = tell_now() - from;
	return NULL;
}

static void measure_threads(const struct measured *what, unsigned count)
{
	struct worker workers[THREADS_MOST];
	pthread_barrier_t start;
	double rate = 0;
	unsigned i;

	if (pthread_barrier_init(&start, NULL, count))
		tell_failure("no barrier");
	for (i = 0; i < count; i++) {
		workers[i] = (struct worker){.what = what, .start = &start};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			tell_failure("no thread");
	}
	for (i = 0; i < count; i++) {
		(void)pthread_join(workers[i].thread, NULL);
		rate += (double)workers[i].pairs * 1e9 / (double)workers[i].ns;
	}
	tell_fact("pairs a second", rate, "1/s", "%s, %u threads", what->name, count);
	(void)pthread_barrier_destroy(&start);
}

void measure_all(const struct measured *what)
{
	static const size_t sizes[] = {KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 1024 * MIB};
	size_t i;
	unsigned threads;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		measure_pairs(what, sizes[i]);
	for (i = 0; i < 5; i++)
		measure_turns(what, sizes[i]);
	for (threads = 1; threads <= THREADS_MOST; threads *= 4)
		measure_threads(what, threads);
	library_leave_figures();
}
