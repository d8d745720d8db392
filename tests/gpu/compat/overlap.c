/* SPDX-License-Identifier: MIT */
/*
 * Most of the card in blocks that each hold a number of their own: no two that live may overlap. In
 * rounds a part of them is freed and its room given to others.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { BLOCKS = 20000, ROUNDS = 4, LARGEST_SHARE = 64 };

static struct block {
	CUdeviceptr at;
	size_t words;
	uint32_t number;
} blocks[BLOCKS];
static size_t count;
static size_t live;
static uint64_t seed = 7;
static uint32_t numbers;

/* Until so much lives, or the driver has no more. */
static void grow(size_t wanted)
{
	while (live < wanted && count < BLOCKS) {
		struct block *block = &blocks[count];
		size_t most = wanted / LARGEST_SHARE / (1 + device_random(&seed) % 64);
		CUresult result;

		block->words = 1 + device_random(&seed) % (most / sizeof(uint32_t) + 1);
		result = cuMemAlloc(&block->at, block->words * sizeof(uint32_t));
		if (result == CUDA_ERROR_OUT_OF_MEMORY)
			return;
		device_check(result, "cuMemAlloc");
		block->number = ++numbers;
		device_fill(block->at, block->number, block->words, NULL);
		live += block->words * sizeof(uint32_t);
		count++;
	}
}

static void shrink(void)
{
	size_t i, kept = 0;

	for (i = 0; i < count; i++) {
		if (device_random(&seed) % 2) {
			blocks[kept++] = blocks[i];
			continue;
		}
		live -= blocks[i].words * sizeof(uint32_t);
		device_free(blocks[i].at);
	}
	count = kept;
}

static uint64_t wrong_words(void)
{
	uint64_t wrong = 0;
	size_t i;

	for (i = 0; i < count; i++)
		wrong += device_wrong(blocks[i].at, blocks[i].number, blocks[i].words, NULL);
	return wrong;
}

int main(void)
{
	size_t left, total;
	uint64_t wrong = 0;
	int round;

	device_open();
	CHECK(cuMemGetInfo(&left, &total));
	for (round = 0; round < ROUNDS; round++) {
		uint64_t found;

		grow(left / 100 * 85);
		fprintf(stderr, "round %d: %zu blocks, %zu MiB\n", round, count, live / MIB);
		found = wrong_words();
		if (live < left / 2)
			tell_failure("only %zu of %zu MiB could be had", live / MIB, left / MIB);
		printf("round %d: %llu words wrong\n", round, (unsigned long long)found);
		wrong += found;
		shrink();
	}
	library_leave_figures();
	return wrong != 0;
}
