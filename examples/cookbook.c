/* SPDX-License-Identifier: MIT */
/*
 * The programs of docs/cookbook.md, each with one fault:
 *
 *	nvcc -g -o cookbook cookbook.c && cudamemstat run --leaks -- ./cookbook leak
 *
 *	cookbook leak      a buffer of each step is forgotten
 *	cookbook holes     small results stay between large buffers that go
 *	cookbook oom       more is wanted than there is
 *	cookbook loop      a temporary is allocated in the inner loop
 *	cookbook server    a burst leaves much behind
 *
 * Those that do not end by themselves wait for the end of their standard input.
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#define MIB   ((size_t)1 << 20)
#define STEPS 200

static void *get(size_t bytes)
{
	void *memory = NULL;

	return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : NULL;
}

__attribute__((noinline)) static void *load_model(size_t bytes)
{
	return get(bytes);
}

__attribute__((noinline)) static void *make_workspace(void)
{
	return get(3 * MIB);
}

__attribute__((noinline)) static void train_step(int step)
{
	void *workspace = make_workspace();

	/* Every tenth step returns early, and forgets it. */
	if (step % 10)
		(void)cudaFree(workspace);
}

static void leak(void)
{
	int step;

	(void)load_model(256 * MIB);
	for (step = 0; step < STEPS; step++)
		train_step(step);
}

__attribute__((noinline)) static void *keep_result(void)
{
	return get(2 * MIB);
}

static void holes(void)
{
	void *buffer[STEPS];
	int i;

	for (i = 0; i < STEPS; i++) {
		buffer[i] = get(6 * MIB);
		(void)keep_result();
	}
	for (i = 0; i < STEPS; i++)
		(void)cudaFree(buffer[i]);
}

__attribute__((noinline)) static void *next_batch(void)
{
	return get(512 * MIB);
}

static void run_out(void)
{
	(void)load_model(1024 * MIB);
	while (next_batch())
		;
}

__attribute__((noinline)) static void normalise(void)
{
	(void)cudaFree(get(64 << 10));
}

static void loop(void)
{
	int i;

	(void)load_model(64 * MIB);
	for (i = 0; i < 20 * STEPS; i++)
		normalise();
}

__attribute__((noinline)) static void answer_burst(void)
{
	void *buffer[64];
	int i;

	for (i = 0; i < 64; i++)
		buffer[i] = get(32 * MIB);
	for (i = 0; i < 64; i++)
		(void)cudaFree(buffer[i]);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"leak", leak},
		     {"holes", holes},
		     {"oom", run_out},
		     {"loop", loop},
		     {"server", answer_burst}};
	size_t i;

	for (i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, argv[1]))
			continue;
		modes[i].run();
		if (modes[i].run != leak && modes[i].run != run_out) {
			(void)puts("ready");
			(void)fflush(stdout);
			while (getchar() != EOF)
				;
		}
		return 0;
	}
	(void)fprintf(stderr, "usage: cookbook leak|holes|oom|loop|server\n");
	return 2;
}
