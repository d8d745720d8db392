/* SPDX-License-Identifier: MIT */
/*
 * A CUDA program to take snapshots of: what it does is known to the last block.
 *
 *   program plain          weights that stay, buffers that come and go, a growing list
 *   program busy           three threads that allocate and free without pause
 *   program many EVENTS BLOCKS
 *   program oom [MODE]     asks for more than there is, after the work of `plain`; then becomes
 *                          `program MODE`
 *   program leak STEPS     one buffer a step is forgotten
 *   program crash          the work of `plain`, then SIGKILL from itself
 *   program give-up        asks for more than there is, frees all it has, and ends by SIGKILL
 *   program spike          holds much for a moment between little, and ends
 *   program exec MODE      the work of `plain`, then becomes `program MODE`
 *   program fail           asks for more than there is, and nothing else
 *
 * Prints "ready" and waits for the end of its standard input, but for those from `oom` on, which
 * end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

#define KIB     ((size_t)1024)
#define MIB     (1024 * KIB)
#define WEIGHTS 6
#define STEPS   8
#define THREADS 3

static volatile int stop;

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	(void)fprintf(stderr, "program: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

static void *get(size_t bytes)
{
	void *memory = NULL;

	check(cudaMalloc(&memory, bytes), "cudaMalloc");
	return memory;
}

static void put(void *memory)
{
	check(cudaFree(memory), "cudaFree");
}

/* In an optimized build it is there only in its caller. */
static inline __attribute__((always_inline)) void *inlined_buffer(size_t bytes)
{
	return get(bytes);
}

__attribute__((noinline)) static void load_weights(void *weights[WEIGHTS])
{
	int i;

	for (i = 0; i < WEIGHTS; i++)
		weights[i] = get((4 + (size_t)i) * MIB);
}

__attribute__((noinline)) static void *make_activation(int step)
{
	return inlined_buffer((size_t)(step + 1) * 512 * KIB + 1000);
}

__attribute__((noinline)) static void forward(int step)
{
	void *activation = make_activation(step);
	void *scratch = get(300 * KIB);

	put(scratch);
	put(activation);
}

__attribute__((noinline)) static void remember(int step)
{
	(void)get((size_t)(step + 1) * 64 * KIB);
}

static void plain(void)
{
	void *weights[WEIGHTS];
	int step;

	load_weights(weights);
	for (step = 0; step < STEPS; step++) {
		forward(step);
		if (step % 2)
			remember(step);
	}
	check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
	put(weights[0]);
	put(weights[3]);
}

static void leak(int steps)
{
	int step;

	for (step = 0; step < steps; step++) {
		forward(step % 16);
		remember(step % 4);
	}
}

__attribute__((noinline)) static void give_up(void)
{
	void *memory[3], *more;
	int i;

	for (i = 0; i < 3; i++)
		memory[i] = get(8 * MIB);
	if (cudaMalloc(&more, (size_t)1 << 45) == cudaSuccess)
		exit(1);
	for (i = 0; i < 3; i++)
		put(memory[i]);
	(void)kill(getpid(), SIGKILL);
}

__attribute__((noinline)) static void burst(void)
{
	void *memory[4];
	int i;

	for (i = 0; i < 4; i++)
		memory[i] = get(32 * MIB);
	for (i = 0; i < 4; i++)
		put(memory[i]);
}

static void spike(void)
{
	void *weight = get(MIB);

	burst();
	put(weight);
}

static void fail_for_memory(void)
{
	void *memory;

	if (cudaMalloc(&memory, (size_t)1 << 45) == cudaSuccess)
		exit(1);
}

static void *be_busy(void *arg)
{
	unsigned seed = 1 + (unsigned)(uintptr_t)arg;
	void *held[64] = {0};
	size_t i;

	while (!stop) {
		i = (size_t)rand_r(&seed) % 64;
		if (held[i])
			put(held[i]);
		held[i] = get(1 + (size_t)rand_r(&seed) % (2 * MIB));
	}
	for (i = 0; i < 64; i++)
		if (held[i])
			put(held[i]);
	return NULL;
}

static void busy(void)
{
	pthread_t thread[THREADS];
	char byte;
	int i;

	put(get(1)); /* the region is there before anybody looks for it */
	for (i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, be_busy, (void *)(uintptr_t)i))
			exit(1);
	(void)puts("ready");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	stop = 1;
	for (i = 0; i < THREADS; i++)
		(void)pthread_join(thread[i], NULL);
}

/* Blocks of many sizes stay; the rest of the events are requests and frees. */
static void many(long events, long blocks)
{
	unsigned seed = 7;
	long i;

	for (i = 0; i < blocks; i++)
		(void)get(512 + (size_t)rand_r(&seed) % (64 * KIB));
	for (i = blocks; i < events; i += 3)
		put(get(512 + (size_t)rand_r(&seed) % (256 * KIB)));
}

static void wait_for_end(void)
{
	char byte;

	(void)puts("ready");
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "plain";

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (!strcmp(mode, "busy")) {
		busy();
		return 0;
	}
	if (!strcmp(mode, "many") && argc > 3)
		many(strtol(argv[2], NULL, 10), strtol(argv[3], NULL, 10));
	else if (!strcmp(mode, "leak") && argc > 2)
		leak((int)strtol(argv[2], NULL, 10));
	else if (!strcmp(mode, "give-up"))
		give_up();
	else if (!strcmp(mode, "spike"))
		spike();
	else if (strcmp(mode, "fail"))
		plain();
	if (!strcmp(mode, "oom") || !strcmp(mode, "fail"))
		fail_for_memory();
	if ((!strcmp(mode, "exec") || !strcmp(mode, "oom")) && argc > 2)
		return execl("/proc/self/exe", argv[0], argv[2], NULL);
	if (!strcmp(mode, "crash"))
		(void)kill(getpid(), SIGKILL);
	if (!strcmp(mode, "plain") || !strcmp(mode, "many"))
		wait_for_end();
	return 0;
}
