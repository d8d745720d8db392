/* SPDX-License-Identifier: MIT */
/*
 * An ordinary CUDA program, as many are: every step takes temporaries from cudaMalloc, uses them on
 * a stream and frees them with cudaFree, and relies on CUDA to know when they are idle. It
 * knows nothing of cudamem. It checks its results and says how long it took.
 *
 *   demo [STEPS [hold]]      hold: keep the memory and wait for the end of stdin before exit
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#define STREAMS    4
#define STAGES     3 /* temporaries of one step */
#define KEPT       256
#define KEPT_BYTES 256u /* of a kept block, from its start, that are written and checked */
#define MIN_SHIFT  12   /* sizes are spread evenly over the powers of two from 4 KiB */
#define MAX_SHIFT  22   /* to 8 MiB */
#define MAX_BYTES  ((size_t)2 << MAX_SHIFT)

/* One stream with the step that is under way on it. */
struct lane {
	cudaStream_t stream;
	uint8_t *in;  /* pinned, MAX_BYTES */
	uint8_t *out; /* pinned, MAX_BYTES */
	size_t bytes; /* of the step under way, 0: none */
};

struct kept {
	void *device;
	size_t bytes;
	uint8_t tag;
};

static struct lane lanes[STREAMS];
static struct kept kept[KEPT];
static uint64_t random_state = 88172645463325252u;
static uint64_t pairs, alloc_ns, free_ns, live_bytes, live_peak, wrong;

static void check(cudaError_t error, const char *what)
{
	if (error != cudaSuccess) {
		fprintf(stderr, "demo: %s: %s\n", what, cudaGetErrorString(error));
		exit(1);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static size_t random_bytes(void)
{
	size_t power = (size_t)1 << (MIN_SHIFT + next_random() % (MAX_SHIFT - MIN_SHIFT + 1));

	return power + next_random() % power;
}

static void take(void **blocks, const size_t *bytes, size_t count)
{
	uint64_t start = now_ns();

	for (size_t i = 0; i < count; i++)
		check(cudaMalloc(&blocks[i], bytes[i]), "cudaMalloc");
	alloc_ns += now_ns() - start;
	for (size_t i = 0; i < count; i++)
		live_bytes += bytes[i];
	if (live_bytes > live_peak)
		live_peak = live_bytes;
	pairs += count;
}

static void give(void *const *blocks, const size_t *bytes, size_t count)
{
	uint64_t start = now_ns();

	for (size_t i = 0; i < count; i++)
		check(cudaFree(blocks[i]), "cudaFree");
	free_ns += now_ns() - start;
	for (size_t i = 0; i < count; i++)
		live_bytes -= bytes[i];
}

/* Waits for the step under way and compares what came back with what went in. */
static void finish_step(struct lane *lane)
{
	if (lane->bytes == 0)
		return;
	check(cudaStreamSynchronize(lane->stream), "cudaStreamSynchronize");
	wrong += memcmp(lane->in, lane->out, lane->bytes) != 0;
	lane->bytes = 0;
}

/* In, through three temporaries on the device, and out again. */
static void start_step(struct lane *lane)
{
	size_t bytes = random_bytes();
	size_t sizes[STAGES] = {bytes, bytes, bytes};
	void *stage[STAGES];

	lane->bytes = bytes;
	memset(lane->in, (int)(next_random() & 0xff), bytes);
	memset(lane->out, 0, bytes);
	take(stage, sizes, STAGES);
	check(cudaMemcpyAsync(stage[0], lane->in, bytes, cudaMemcpyHostToDevice, lane->stream),
	      "copy to the device");
	for (size_t i = 1; i < STAGES; i++)
		check(cudaMemcpyAsync(stage[i], stage[i - 1], bytes, cudaMemcpyDeviceToDevice,
				      lane->stream),
		      "copy on the device");
	check(cudaMemcpyAsync(lane->out, stage[STAGES - 1], bytes, cudaMemcpyDeviceToHost,
			      lane->stream),
	      "copy from the device");
	/* Legal while the copies are under way: cudaFree waits for the device. */
	give(stage, sizes, STAGES);
}

static void check_kept(const struct kept *block)
{
	uint8_t seen[KEPT_BYTES];

	check(cudaMemcpy(seen, block->device, KEPT_BYTES, cudaMemcpyDeviceToHost), "copy back");
	for (size_t i = 0; i < KEPT_BYTES; i++)
		wrong += seen[i] != block->tag;
}

/* Blocks that outlive many steps: one of them, picked by chance, is checked and replaced. */
static void replace_kept(void)
{
	struct kept *block = &kept[next_random() % KEPT];

	if (block->device) {
		check_kept(block);
		give(&block->device, &block->bytes, 1);
	}
	block->bytes = random_bytes();
	block->tag = (uint8_t)next_random();
	take(&block->device, &block->bytes, 1);
	check(cudaMemset(block->device, block->tag, KEPT_BYTES), "cudaMemset");
}

static void open_lanes(void)
{
	for (size_t i = 0; i < STREAMS; i++) {
		check(cudaStreamCreate(&lanes[i].stream), "cudaStreamCreate");
		check(cudaMallocHost((void **)&lanes[i].in, MAX_BYTES), "cudaMallocHost");
		check(cudaMallocHost((void **)&lanes[i].out, MAX_BYTES), "cudaMallocHost");
	}
}

static void close_lanes(void)
{
	for (size_t i = 0; i < STREAMS; i++) {
		check(cudaStreamDestroy(lanes[i].stream), "cudaStreamDestroy");
		check(cudaFreeHost(lanes[i].in), "cudaFreeHost");
		check(cudaFreeHost(lanes[i].out), "cudaFreeHost");
	}
	for (size_t i = 0; i < KEPT; i++) {
		if (kept[i].device)
			check(cudaFree(kept[i].device), "cudaFree");
	}
}

int main(int argc, char **argv)
{
	unsigned long steps = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
	bool hold = argc > 2 && strcmp(argv[2], "hold") == 0;
	uint64_t start;

	open_lanes();
	start = now_ns();
	for (unsigned long step = 0; step < steps; step++) {
		struct lane *lane = &lanes[step % STREAMS];

		finish_step(lane);
		start_step(lane);
		replace_kept();
	}
	for (size_t i = 0; i < STREAMS; i++)
		finish_step(&lanes[i]);
	printf("seconds: %.3f\n", (double)(now_ns() - start) / 1e9);
	printf("pairs: %lu\n", (unsigned long)pairs);
	printf("malloc_ns: %.1f\n", (double)alloc_ns / (double)pairs);
	printf("free_ns: %.1f\n", (double)free_ns / (double)pairs);
	printf("live_peak_bytes: %lu\n", (unsigned long)live_peak);
	printf("live_bytes: %lu\n", (unsigned long)live_bytes);
	printf("wrong: %lu\n", (unsigned long)wrong);
	fflush(stdout);
	while (hold && getchar() != EOF)
		;
	close_lanes();
	return wrong != 0;
}
