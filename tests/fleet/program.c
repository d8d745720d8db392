/* SPDX-License-Identifier: MIT */
/* A CUDA program that somebody has: takes 64 MiB, says so, and ends when its standard input
 * does. */
#include <cuda_runtime_api.h>
#include <stdio.h>

#define BYTES ((size_t)64 << 20)

int main(void)
{
	void *memory;

	if (cudaMalloc(&memory, BYTES)) {
		(void)puts("failed");
		return 1;
	}
	(void)puts("allocated");
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	return cudaFree(memory) != 0;
}
