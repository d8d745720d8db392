/* SPDX-License-Identifier: MIT */
/*
 * A CUDA program without debug information, whose functions have the names that compilers of C++
 * and Rust give: they are in its table of symbols alone. Ends by SIGKILL from itself, so that its
 * region stays.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

/* solver::Grid<float>::refine(unsigned long) */
void refine(size_t bytes) __asm__("_ZN6solver4GridIfE6refineEm");
/* solver::mesh::split */
void split(size_t bytes) __asm__("_RNvNtC6solver4mesh5split");
/* It looks like C++ and is none: shown as it is. */
void broken(size_t bytes) __asm__("_ZN6solver");

static void get(size_t bytes)
{
	void *memory;

	if (cudaMalloc(&memory, bytes) != cudaSuccess)
		exit(1);
}

/* What follows the call keeps it from becoming a jump. */
#define KEEP_FRAME() __asm__ __volatile__("" : : : "memory")

__attribute__((noinline)) void refine(size_t bytes)
{
	get(bytes);
	KEEP_FRAME();
}

__attribute__((noinline)) void split(size_t bytes)
{
	refine(bytes);
	KEEP_FRAME();
}

__attribute__((noinline)) void broken(size_t bytes)
{
	split(bytes);
	KEEP_FRAME();
}

int main(void)
{
	broken(1 << 20);
	(void)kill(getpid(), SIGKILL);
	return 1;
}
