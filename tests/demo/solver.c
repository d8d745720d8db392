/* SPDX-License-Identifier: MIT */
/*
 * A solver as codes of physics and engineering have them: fields that live as long as the program,
 * temporaries in every step, and a checkpoint every few steps that nobody frees. README.md shows
 * what cudamem says of it; tests/demo/pictures.py makes those pictures.
 *
 *   solver [STEPS [hold]]      hold: wait for the end of stdin before exit
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#define MIB                   ((size_t)1 << 20)
#define FIELDS                6
#define FIELD_BYTES           (40 * MIB)
#define LEVELS                5
#define STEPS_PER_CHECKPOINT  4
#define CHECKPOINTS_MAX       64
#define KERNEL_AT_WORK(bytes) ((bytes) / 8)

static void *field[FIELDS];
static void *checkpoint[CHECKPOINTS_MAX];
static unsigned int checkpoints;
static cudaStream_t stream;

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "solver: %s: %s\n", what, cudaGetErrorString(error));
	exit(1);
}

void *take(size_t bytes, const char *what)
{
	void *memory;

	check(cudaMalloc(&memory, bytes), what);
	check(cudaMemsetAsync(memory, 0, KERNEL_AT_WORK(bytes), stream), what);
	return memory;
}

void create_fields(void)
{
	for (size_t i = 0; i < FIELDS; i++)
		field[i] = take(FIELD_BYTES, "a field");
}

void apply_stencil(void)
{
	void *flux = take(FIELD_BYTES, "the flux");
	void *limiter = take(FIELD_BYTES / 2, "the limiter");

	check(cudaMemcpyAsync(field[0], flux, FIELD_BYTES, cudaMemcpyDeviceToDevice, stream),
	      "the flux");
	check(cudaFree(limiter), "the limiter");
	check(cudaFree(flux), "the flux");
}

/* One V-cycle: each level has a residual and a correction of half the size of the one above. */
void solve_pressure(size_t bytes, unsigned int level)
{
	void *residual = take(bytes, "a residual");
	void *correction = take(bytes, "a correction");

	if (level + 1 < LEVELS)
		solve_pressure(bytes / 2, level + 1);
	check(cudaFree(correction), "a correction");
	check(cudaFree(residual), "a residual");
}

/* Meant to be overwritten by the next one; it is not, and stays. */
void save_checkpoint(void)
{
	void *copy = take(FIELD_BYTES, "a checkpoint");

	check(cudaMemcpyAsync(copy, field[0], FIELD_BYTES, cudaMemcpyDeviceToDevice, stream),
	      "a checkpoint");
	checkpoint[checkpoints++ % CHECKPOINTS_MAX] = copy;
}

int main(int argc, char **argv)
{
	const unsigned int steps = argc > 1 ? (unsigned int)atoi(argv[1]) : 40;
	const bool hold = argc > 2 && !strcmp(argv[2], "hold");

	check(cudaStreamCreate(&stream), "a stream");
	create_fields();
	for (unsigned int step = 1; step <= steps; step++) {
		apply_stencil();
		solve_pressure(FIELD_BYTES, 0);
		if (step % STEPS_PER_CHECKPOINT == 0)
			save_checkpoint();
	}
	check(cudaStreamSynchronize(stream), "the end");
	printf("steps: %u\nwrong: 0\n", steps);
	(void)fflush(stdout);
	while (hold && getchar() != EOF)
		;
	return 0;
}
