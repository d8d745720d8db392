/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, compute and free on streams of their own, and hand every other block to
 * the next thread, which frees it while its maker's work on it may still be under way.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { THREADS = 8, TURNS = 500, SIMULATED_TURNS = 60, ROOM = 4 };

static int turns;
static _Atomic(uint64_t) wrong;
/* From one thread to the next; 0: empty. */
static _Atomic(CUdeviceptr) hands[THREADS][ROOM];

static void hand_over(unsigned thread, unsigned turn, CUdeviceptr at)
{
	CUdeviceptr old = atomic_exchange(&hands[(thread + 1) % THREADS][turn % ROOM], at);

	if (old)
		device_free(old);
}

static void take_one(unsigned thread, unsigned turn)
{
	CUdeviceptr at = atomic_exchange(&hands[thread][turn % ROOM], 0);

	if (at)
		device_free(at);
}

static void *work(void *data)
{
	unsigned thread = (unsigned)(uintptr_t)data, i;
	uint64_t random = thread + 1;
	CUstream stream;

	device_attach();
	stream = device_stream();
	for (i = 0; i < (unsigned)turns; i++) {
		size_t count = 1 + device_random(&random) % (1 << 16);
		CUdeviceptr at = device_alloc(count * sizeof(uint32_t));
		CUdeviceptr copy = device_alloc(count * sizeof(uint32_t));
		uint32_t number = thread << 16 | i;

		device_fill(at, number, count, stream);
		device_copy(copy, at, count, stream);
		if (i % 2)
			hand_over(thread, i, at);
		else
			device_free(at);
		take_one(thread, i);
		wrong += device_wrong(copy, number, count, stream);
		device_free(copy);
	}
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	size_t i, j;

	device_open();
	turns = tell_simulated() ? SIMULATED_TURNS : TURNS;
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)i))
			tell_failure("no thread");
	for (i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	for (i = 0; i < THREADS; i++)
		for (j = 0; j < ROOM; j++)
			take_one((unsigned)i, (unsigned)j);
	printf("turns: %d\nwrong: %llu\n", turns, (unsigned long long)wrong);
	library_leave_figures();
	return wrong != 0;
}
