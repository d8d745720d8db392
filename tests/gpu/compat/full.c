/* SPDX-License-Identifier: MIT */
/*
 * A card that is filled to the brim, in pieces and then whole: a cache must not make a program run
 * out of memory earlier than it would without, whatever allocator asks.
 */
#include <stdio.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { BLOCKS = 4096 };

static CUdeviceptr blocks[BLOCKS];

/* Bytes that could be had in blocks of that size; all are freed again. */
static size_t fill_card(size_t bytes)
{
	CUresult result = CUDA_SUCCESS;
	int count = 0, i;

	while (count < BLOCKS) {
		result = cuMemAlloc(&blocks[count], bytes);
		if (result != CUDA_SUCCESS)
			break;
		count++;
	}
	if (count < BLOCKS && result != CUDA_ERROR_OUT_OF_MEMORY)
		tell_failure("cuMemAlloc: %s", device_error(result));
	for (i = 0; i < count; i++)
		device_free(blocks[i]);
	return (size_t)count * bytes;
}

/* While there is room, what is freed serves again. */
static void again(size_t bytes)
{
	CUdeviceptr at;
	int i;

	for (i = 0; i < 10; i++) {
		CHECK(cuMemAlloc(&at, bytes));
		device_free(at);
	}
}

static void whole(size_t bytes)
{
	CUdeviceptr at;
	CUresult result = cuMemAlloc(&at, bytes);

	printf("nine tenths of what is free in one piece: %s\n", device_error(result));
	if (result == CUDA_SUCCESS)
		device_free(at);
}

static void by_another_allocator(size_t bytes)
{
	CUdeviceptr at;
	CUresult result = cuMemAllocAsync(&at, bytes, NULL);

	printf("the same from a pool: %s\n", device_error(result));
	if (result == CUDA_SUCCESS)
		CHECK(cuMemFreeAsync(at, NULL));
	CHECK(cuCtxSynchronize());
}

int main(void)
{
	size_t left, total, piece;
	int i;

	device_open();
	CHECK(cuMemGetInfo(&left, &total));
	piece = left / 100;
	again(piece);
	for (i = 0; i < 3; i++) {
		size_t had = fill_card(piece);

		fprintf(stderr, "%zu of %zu MiB\n", had / MIB, left / MIB);
		printf("pieces fill the card to nine tenths: %d\n", had >= left / 10 * 9);
		whole(left / 10 * 9);
	}
	by_another_allocator(left / 10 * 9);
	library_leave_figures();
	return 0;
}
