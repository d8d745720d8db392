/* SPDX-License-Identifier: MIT */
/*
 * Contexts that come and go with memory still in them, blocks that one thread makes and another
 * frees, and the primary context, released and reset.
 */
#include <pthread.h>
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { TURNS = 10, BLOCKS = 12, COUNT = 1 << 14 };

static uint64_t wrong;

static CUcontext create(void)
{
	CUctxCreateParams params = {0};
	CUcontext context;

	CHECK(cuCtxCreate(&context, &params, 0, device_first()));
	device_load_kernels();
	return context;
}

static void use(uint32_t number)
{
	CUdeviceptr at[BLOCKS];
	int i;

	for (i = 0; i < BLOCKS; i++) {
		at[i] = device_alloc(COUNT * sizeof(uint32_t) * (size_t)(i + 1));
		device_fill(at[i], number + (uint32_t)i, COUNT, NULL);
	}
	for (i = 0; i < BLOCKS; i++)
		wrong += device_wrong(at[i], number + (uint32_t)i, COUNT, NULL);
	/* The others are the context's to lose. */
	for (i = 0; i < BLOCKS; i += 2)
		device_free(at[i]);
}

static void come_and_go(void)
{
	int i;

	for (i = 0; i < TURNS; i++) {
		CUcontext first = create(), second;

		use((uint32_t)(100 * i));
		second = create();
		use((uint32_t)(100 * i + 50));
		CHECK(cuCtxDestroy(second));
		CHECK(cuCtxSetCurrent(first));
		CHECK(cuCtxDestroy(first));
	}
	printf("contexts: %d\n", 2 * TURNS);
}

struct gift {
	CUcontext context;
	CUdeviceptr at;
};

static void *free_elsewhere(void *data)
{
	const struct gift *gift = data;

	CHECK(cuCtxSetCurrent(gift->context));
	device_free(gift->at);
	return NULL;
}

static void pass_on(void)
{
	struct gift gift = {create(), 0};
	int i;

	for (i = 0; i < TURNS; i++) {
		pthread_t thread;

		gift.at = device_alloc(MIB * (size_t)(i + 1));
		device_fill(gift.at, (uint32_t)i, COUNT, NULL);
		wrong += device_wrong(gift.at, (uint32_t)i, COUNT, NULL);
		if (pthread_create(&thread, NULL, free_elsewhere, &gift))
			tell_failure("no thread");
		(void)pthread_join(thread, NULL);
	}
	CHECK(cuCtxDestroy(gift.context));
	printf("passed on: %d\n", TURNS);
}

/* A block of a context is freed while another one is current: the address says whose it is. */
static void free_from_another_context(void)
{
	CUcontext first = create(), second;
	CUdeviceptr at = device_alloc(MIB);

	second = create();
	printf("freed from another context: %s\n", device_error(cuMemFree(at)));
	CHECK(cuCtxDestroy(second));
	CHECK(cuCtxSetCurrent(first));
	CHECK(cuCtxDestroy(first));
}

static void primary(void)
{
	CUcontext context;
	CUdeviceptr at;

	device_attach();
	at = device_alloc(MIB);
	CHECK(cuDevicePrimaryCtxReset(device_first()));
	printf("freed after a reset: %s\n", device_error(cuMemFree(at)));
	CHECK(cuDevicePrimaryCtxRetain(&context, device_first()));
	CHECK(cuCtxSetCurrent(context));
	device_load_kernels();
	use(7);
	CHECK(cuDevicePrimaryCtxRelease(device_first()));
}

int main(void)
{
	device_open();
	use(1);
	come_and_go();
	pass_on();
	free_from_another_context();
	device_attach();
	use(3);
	library_leave_figures();
	primary();
	printf("wrong: %llu\n", (unsigned long long)wrong);
	return wrong != 0;
}
