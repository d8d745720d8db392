/* SPDX-License-Identifier: MIT */
/*
 * A process that forks before it uses CUDA, as Python's workers do: parent and child both compute.
 * Then one that forks afterwards, whose child may only leave.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/kit/device.h"
#include "tests/gpu/kit/library.h"

enum { COUNT = 1 << 16, TURNS = 50 };

static uint64_t compute(uint32_t base)
{
	uint64_t wrong = 0;
	uint32_t i;

	device_open();
	for (i = 0; i < TURNS; i++) {
		CUdeviceptr at = device_alloc(COUNT * sizeof(uint32_t) * (1 + i % 5));

		device_fill(at, base + i, COUNT, NULL);
		wrong += device_wrong(at, base + i, COUNT, NULL);
		device_free(at);
	}
	return wrong;
}

static int wait_for(pid_t child)
{
	int status = -1;

	(void)waitpid(child, &status, 0);
	return status;
}

int main(void)
{
	uint64_t wrong;
	pid_t child;
	int status;

	(void)fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(compute(1000) != 0);
	wrong = compute(2000);
	status = wait_for(child);
	printf("wrong: %llu\nchild of before: %d\n", (unsigned long long)wrong, status);
	(void)fflush(stdout);
	child = fork();
	if (child == 0)
		_exit(0);
	printf("child of after: %d\n", wait_for(child));
	wrong += compute(3000);
	printf("wrong: %llu\n", (unsigned long long)wrong);
	library_leave_figures();
	return wrong || status;
}
