/* SPDX-License-Identifier: MIT */
/*
 * How long a request takes for which there is memory only in the caches of other processes: starts
 * so many of them on one simulated card, lets them fill it and free it all, and asks for all they
 * have in one piece. Each of them is this program with --idle.
 */
#include <cuda.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "device.h"

#define MIB        ((size_t)1 << 20)
#define PIECE      (12 * MIB) /* a segment of its own */
#define PIECES     4
#define OTHERS_MAX 63
#define TRIES      100
#define ROOM       (4 * MIB) /* of the card, beside what they have */

static double now_ms(void)
{
	return (double)clock_ns(CLOCK_MONOTONIC) / 1e6;
}

/* Holds what it has freed until standard input ends. */
static int be_idle(void)
{
	CUdeviceptr addr[PIECES];
	char byte = 0;
	int i;

	if (device_open())
		return 1;
	for (i = 0; i < PIECES; i++)
		if (cuMemAlloc(&addr[i], PIECE) != CUDA_SUCCESS)
			return 1;
	for (i = 0; i < PIECES; i++)
		(void)cuMemFree(addr[i]);
	if (write(STDOUT_FILENO, &byte, 1) != 1)
		return 1;
	return read(STDIN_FILENO, &byte, 1) ? 1 : 0;
}

/* Starts one, with an end of each pipe; its number, or -1. */
static pid_t start(int stay, int ready)
{
	static char self[] = "/proc/self/exe", idle[] = "--idle";
	char *const argv[] = {self, idle, NULL};
	posix_spawn_file_actions_t actions;
	pid_t child;
	int err;

	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, stay, STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, ready, STDOUT_FILENO);
	err = posix_spawn(&child, self, &actions, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&actions);
	return err ? -1 : child;
}

/* All others are ready: one request. 0 or 1. */
static int ask(unsigned others)
{
	unsigned failed = 0;
	CUdeviceptr addr;
	double start;

	/* The driver is started and the library awake before the clock runs. */
	if (device_open() || cuMemAlloc(&addr, 1) != CUDA_SUCCESS) {
		fprintf(stderr, "peers: no room for the one who asks\n");
		return 1;
	}
	start = now_ms();
	/* On a machine that is too busy for them to answer in time it takes more than one try. */
	while (cuMemAlloc(&addr, others * PIECES * PIECE) != CUDA_SUCCESS) {
		if (++failed == TRIES) {
			fprintf(stderr, "peers: they gave too little\n");
			return 1;
		}
	}
	printf("ms %.3f\n", now_ms() - start);
	printf("got_bytes %llu\n", (unsigned long long)(others * PIECES * PIECE));
	return 0;
}

/* The pipes are closed on exec; what the children need of them they have as standard input,
 * output. */
static int run(unsigned others)
{
	pid_t child[OTHERS_MAX];
	int stay[2], ready[2], status = 0, died;
	unsigned i;
	char byte;

	if (pipe2(stay, O_CLOEXEC) || pipe2(ready, O_CLOEXEC))
		return 1;
	for (i = 0; i < others && !status; i++) {
		child[i] = start(stay[0], ready[1]);
		status = child[i] < 0;
	}
	others = status ? i - 1 : i;
	(void)close(ready[1]);
	for (i = 0; i < others && !status; i++)
		status = read(ready[0], &byte, 1) != 1;
	status = status ? status : ask(others);
	(void)close(stay[1]);
	for (i = 0; i < others; i++)
		status |= waitpid(child[i], &died, 0) != child[i] || died;
	return status;
}

int main(int argc, char **argv)
{
	const char *folder = getenv("TMPDIR");
	char path[4096], plan[4200], dir[4000];
	unsigned others;
	int status;

	if (argc == 2 && !strcmp(argv[1], "--idle"))
		return be_idle();
	others = argc == 2 ? (unsigned)strtoul(argv[1], NULL, 10) - 1 : 0;
	if (!others || others > OTHERS_MAX) {
		fprintf(stderr, "usage: peers PROCESSES\n");
		return 2;
	}
	(void)snprintf(dir, sizeof(dir), "%s/cudamem-bench.XXXXXX", folder ? folder : "/tmp");
	if (!mkdtemp(dir)) {
		perror(dir);
		return 1;
	}
	(void)snprintf(path, sizeof(path), "%s/card", dir);
	(void)snprintf(plan, sizeof(plan), "guard:off,memory:%zu,card:%s",
		       others * PIECES * PIECE + ROOM, path);
	(void)setenv("CUDASIM", plan, 1);
	status = run(others);
	(void)unlink(path);
	(void)rmdir(dir);
	return status;
}
